"""Where files wait on local disk until they are stored."""

from __future__ import annotations

import tempfile
from pathlib import Path

from crawlkit.config import Config


def spool_folder(cfg: Config, warc_place: str) -> Path:
    """The local folder for open WARC files.

    Beside local WARC files, so that they need not be copied.
    """
    if cfg.storage.spool is not None:
        return Path(cfg.storage.spool)
    return (
        Path(tempfile.gettempdir(), f"crawlkit-{cfg.crawl.id}")
        if "://" in warc_place
        else Path(warc_place, ".tmp")
    )
