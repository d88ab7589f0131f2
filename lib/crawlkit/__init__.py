"""A batch web crawler in the MapReduce manner on Spark and Delta Lake.

`crawlkit.open(DIR)` has the data of a crawl for a notebook or a program (docs/python.md);
`crawlkit.api` has the parts that a program calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from crawlkit.version import __version__

__all__ = ["__version__", "open"]

if TYPE_CHECKING:
    from os import PathLike

    from crawlkit.reading.crawl_data import CrawlData


def open(
    data: str | PathLike[str],
    config: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> CrawlData:
    """The crawl at a folder or s3://bucket/prefix: its tables, stored pages and status.

    There need be none yet: `open(DIR).crawl(URL)` begins one.

    Args:
        data: what `--data` names.
        config: a YAML file of settings, over those that the crawl has kept in its crawl.yaml.
        settings: single keys over both, for example {"politeness.delay_s": 2}.

    Raises ConfigError, StoreUnavailable.
    """
    # loaded when it is called: `import crawlkit` stays light
    made: CrawlData = import_module("crawlkit.reading.crawl_data").CrawlData(data, config, settings)
    return made
