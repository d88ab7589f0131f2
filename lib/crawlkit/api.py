"""The parts that a program calls: addresses, robots.txt, pages, one fetch, and what a crawl knows.

Nothing here starts Spark. Functions that speak of a crawl take its folder and configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from crawlkit.config import Config
from crawlkit.control.commands import known_urls, run_command
from crawlkit.control.responses import status, table_figures
from crawlkit.crawl.state import Crawl, Place
from crawlkit.observe.single_url import One, fetch_one as _fetch_one
from crawlkit.outcomes import Refused
from crawlkit.parsing.single_page import parse_one as _parse_one
from crawlkit.rules.duplicates.clusters import near_pairs
from crawlkit.rules.duplicates.fingerprint import (
    PERMUTATIONS,
    band_rows,
    fingerprint,
)
from crawlkit.rules.page.encoding import decode_utf8
from crawlkit.rules.page.links import anchor_urls
from crawlkit.rules.page.markup import read_addresses, read_html
from crawlkit.rules.robots import parser as _robots
from crawlkit.rules.text.main_text import main_text as _main_text
from crawlkit.rules.url.canonical import as_sent, canonicalize as _canonicalize
from crawlkit.rules.url.policy import UrlPolicy

if TYPE_CHECKING:
    from datasketch import MinHash, MinHashLSH

__all__ = [
    "One",
    "Refused",
    "add_urls",
    "allow",
    "canonicalize",
    "fetch_one",
    "is_seen",
    "links",
    "lsh",
    "main_text",
    "minhash",
    "near_duplicates",
    "parse_one",
    "stats",
]


def canonicalize(url: str | bytes, base: str | None = None) -> str:
    """The canonical form of a URL, or of a reference on the page `base`.

    Raises Refused, whose `reason` says why it is none.
    """
    return _canonicalize(url, base)


def allow(robots: bytes, agent: str, url: str) -> bool:
    """Whether a robots.txt lets the product token `agent` fetch `url` (RFC 9309 2.2).

    Raises Refused (no such URL).
    """
    return _robots.parse(robots).match(agent, as_sent(url)).allowed


def links(html: bytes, url: str) -> list[str]:
    """Canonical URLs of the links of an HTML page at `url`, each once, in order.

    Raises Refused (no such URL).
    """
    markup, encoding = decode_utf8(html)
    return list(
        dict.fromkeys(anchor_urls(read_addresses(markup), _canonicalize(url), encoding.name))
    )


def main_text(html: bytes, url: str) -> str:
    """The text of an HTML page without menus, footers and other side matter.

    Raises Refused (no such URL).
    """
    _canonicalize(url)
    return _main_text(read_html(decode_utf8(html)[0]))


def near_duplicates(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of ids whose texts are equal or nearly so (verified Jaccard of 3-word shingles >= 0.8,
    or >= 0.5 at SimHash distance <= 3), each once, sorted.

    Of more than 30 texts that are alike, each is paired with some of them and not with all: pairs
    and time grow with the number of texts, and connected pairs give the groups.
    """
    return near_pairs({name: texts[name] for name in sorted(texts)})


def minhash(text: str | bytes) -> MinHash | None:
    """The MinHash signature of a text, or of what the column `minhash` of the table `pages` holds,
    as datasketch's type; None for a text of fewer than three words.

    It is for comparing: shingles are known by another hash function here (docs/rules/duplicates.md)
    than the one that its `update` would use. Raises ValueError (bytes that are no signature).
    """
    from datasketch import MinHash  # it loads scipy: most of a second

    signature = fingerprint(text).minhash if isinstance(text, str) else text
    if signature is None:
        return None
    if len(signature) != 4 * PERMUTATIONS:
        raise ValueError(f"a signature has {4 * PERMUTATIONS} bytes, not {len(signature)}")
    return MinHash(PERMUTATIONS, hashvalues=np.frombuffer(signature, "<u4"), scheme="affine32")


def lsh(threshold: float = 0.8) -> MinHashLSH:
    """An empty datasketch index for signatures of `minhash`, with the bands that a crawl uses: a
    pair of texts at `threshold` (Jaccard) shares one with probability 0.995.
    """
    from datasketch import MinHashLSH

    rows = band_rows(threshold)
    return MinHashLSH(num_perm=PERMUTATIONS, params=(PERMUTATIONS // rows, rows))


def fetch_one(url: str, cfg: Config | None = None, data: Place | None = None) -> One:
    """Fetch a URL now, by robots.txt, guard and pace; with `data` also by that crawl's stop list.

    Raises Refused, ConfigError, CrawlError.
    """
    cfg = cfg or Config()
    return _fetch_one(url, cfg, None if data is None else Crawl(data, cfg))


def parse_one(
    body: bytes, url: str, cfg: Config | None = None, content_type: str | None = None
) -> dict[str, Any]:
    """What a body says: title, texts, links, robots directives, digests.

    Raises Refused (no such URL).
    """
    return _parse_one(body, url, cfg or Config(), content_type)


def is_seen(url: str, data: Place, cfg: Config | None = None) -> bool:
    """Whether a crawl knows a URL. Raises Refused (no such URL), CrawlError, TableError."""
    cfg = cfg or Config()
    canonical = _canonicalize(url, policy=UrlPolicy.of(cfg.urls))
    return bool(known_urls(Crawl(data, cfg), [canonical]))


def add_urls(
    urls: Iterable[str],
    data: Place,
    cfg: Config | None = None,
    priority: str | int | None = None,
    **about: Any,
) -> dict[str, Any]:
    """Give URLs to a crawl's next round; `added`, `duplicates` and `refused` of them.

    about: depth (links from a seed), mode (keep, update or overwrite what is known), and source,
    time and metadata (a dict), which the frontier keeps with each URL (crawldb.metadata).
    Raises BadCommand, CrawlError, TypeError.
    """
    if unknown := sorted(about.keys() - {"depth", "mode", "source", "time", "metadata"}):
        raise TypeError(f"add_urls takes no {unknown[0]}")
    given = {"urls": list(urls), "priority": priority, **about}
    return run_command(Crawl(data, cfg or Config()), "seeds", given, actor="api")


def stats(data: Place, cfg: Config | None = None) -> dict[str, Any]:
    """What a crawl is doing and has done: open rounds, URLs by state, rate, errors.

    Raises CrawlError, TableError.
    """
    cfg = cfg or Config()
    return status(data, cfg, table_figures(data, cfg))
