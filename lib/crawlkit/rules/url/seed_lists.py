"""Lists of other tools, read line by line as seeds.

Pure; every parser is linear and takes lines of bounded length.

cdxj: `SURT TIMESTAMP {"url": ...}` (pywb, Common Crawl's index server) or `TIMESTAMP {JSON}`
without its key; tranco: `RANK,DOMAIN` (tranco-list.eu and the lists of its form); heritrix:
crawl.log (Heritrix 3, "crawl.log": the URI is the fourth field); nutch: the text of `nutch readdb
-dump` (a record starts with `URL TAB Version: N`); urls: seed lines as `crawlkit inject` takes
them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize, host_of
from crawlkit.rules.url.domains import registered_domain
from crawlkit.rules.url.seeds import MAX_LINE_CHARS, Seed, parse_seed

MAX_RANK = 10_000_000
_TIMESTAMP = re.compile(r"[0-9]{4,14}")
_CRAWL_LOG = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z")
_NUTCH = re.compile(r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*:[^\t]+)\tVersion: [0-9]+")
_RANKED = re.compile(r"(?P<rank>[0-9]{1,9}),(?P<domain>[^\s,/:]+)")
Parse = Callable[[str, int, UrlPolicy], Seed | None]


def cdxj(line: str, priority_class: int, policy: UrlPolicy) -> Seed | None:
    """Raises Refused, as all of them."""
    line = _line(line)
    if not line or line.startswith("!"):  # metadata of the index
        return None
    head, brace, text = line.partition("{")
    fields = head.split()
    if not brace or not fields or not _TIMESTAMP.fullmatch(fields[-1]):
        raise Refused(Reason.URL_INVALID, "not a CDXJ line: expected KEY TIMESTAMP {JSON}")
    try:
        url = json.loads("{" + text)["url"]
    except (ValueError, KeyError, RecursionError):
        raise Refused(Reason.URL_INVALID, "CDXJ line without a url in its JSON") from None
    return _make_seed(url, priority_class, policy)


def tranco(line: str, priority_class: int, policy: UrlPolicy) -> Seed | None:
    """The home page of a ranked domain, with up to 20 points for its rank."""
    ranked = parse_rank(line)
    if ranked is None:
        return None
    rank, domain = ranked
    return _make_seed(f"http://{domain}/", priority_class, policy)._replace(
        boost=round(20.0 * authority(rank), 2)
    )


def heritrix(line: str, priority_class: int, policy: UrlPolicy) -> Seed | None:
    """A line of a crawl.log of Heritrix 3: its fourth field is the URL. Raises Refused."""
    line = _line(line)
    if not line:
        return None
    fields = line.split(None, 5)
    if len(fields) < 5 or not _CRAWL_LOG.match(fields[0]):
        raise Refused(
            Reason.URL_INVALID, "not a line of crawl.log: expected TIME STATUS SIZE URI PATH ..."
        )
    return None if fields[3].startswith("dns:") else _make_seed(fields[3], priority_class, policy)


def nutch(line: str, priority_class: int, policy: UrlPolicy) -> Seed | None:
    """The lines of a record that follow its first are no URLs: None."""
    match = _NUTCH.fullmatch(_line(line))
    if match is None:
        return None
    return _make_seed(match["url"], priority_class, policy)


FORMS: dict[str, Parse] = {
    "urls": parse_seed,
    "cdxj": cdxj,
    "tranco": tranco,
    "heritrix": heritrix,
    "nutch": nutch,
}


def parse_rank(line: str) -> tuple[int, str] | None:
    """(rank, registered domain) of a line `RANK,DOMAIN`; None for an empty one. Raises Refused."""
    line = _line(line)
    if not line or line.startswith("#"):
        return None
    match = _RANKED.fullmatch(line)
    if match is None or not 1 <= int(match["rank"]) <= MAX_RANK:
        raise Refused(Reason.URL_INVALID, f"not RANK,DOMAIN with a rank from 1 to {MAX_RANK}")
    return int(match["rank"]), registered_domain(
        host_of(canonicalize(f"http://{match['domain']}/"))
    )


def authority(rank: int) -> float:
    """1 for the first of a list, falling by the logarithm of the rank to 0 for the
    ten-millionth.
    """
    return max(0.0, 1.0 - math.log10(rank) / math.log10(MAX_RANK))


def _line(line: str) -> str:
    if len(line) > MAX_LINE_CHARS:
        raise Refused(Reason.URL_TOO_LONG, f"line of {len(line)} characters")
    return line.removeprefix("\ufeff").strip("\r\n\x00 ")


def _make_seed(url: object, priority_class: int, policy: UrlPolicy) -> Seed:
    if not isinstance(url, str):
        raise Refused(Reason.URL_INVALID, "its url is no text")
    return Seed(canonicalize(url, policy=policy), priority_class, 0.0, 0)
