"""Mutated inputs for every parser of remote bytes: nothing but the documented error, no input over
a second, memory bounded.

The quick run takes SHARE inputs of each kind; `make test-slow` takes TOTAL (docs/fuzz.md). One
seed, one sequence: a failure is repeated by its seed and number.
"""

from __future__ import annotations

import json
import random
import resource
import tarfile
import time
from collections.abc import Callable
from functools import lru_cache

import pytest
from crawlkit.config import ScopeConfig
from crawlkit.outcomes import Refused
from crawlkit.rules.feeds import sitemaps
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.robots import parser
from crawlkit.rules.url.canonical import canonicalize, split
from crawlkit.rules.url.domains import registered_domain
from crawlkit.rules.url.pattern import url_shape
from crawlkit.rules.url.scope import Scope, scope_reason

from tests.cputime import within
from tests.rules.page.html5lib_suite import tokenizer_inputs, tree_cases
from tests.shared_data import shared

pytestmark = pytest.mark.waits

SHARE = {"urls": 10_000, "robots": 2_000, "sitemaps": 4_000, "html": 1_000}
TOTAL = 250_000
SEED = 20_241
MAX_INPUT_S = 1.0
MAX_MEMORY_MIB = 256
LONGEST = 20_000  # bytes of a seed

URL = "http://site.example/news/"
SCOPE = Scope.of(ScopeConfig())
TOKENS = {
    "urls": [
        b"http://",
        b"HTTPS:",
        b"//",
        b"\\",
        b"..",
        b"%2e",
        b"%2E%2e",
        b"%",
        b"%41",
        b"%C3%A9",
        b"%zz",
        b"\xc3\xa9",
        b"\xff",
        b"\xe3\x80\x82",
        b"?",
        b"&",
        b"=",
        b"&&",
        b"'",
        b" ",
        b"\t",
        b"\n",
        b"#",
        b"@",
        b":",
        b":80",
        b":99999",
        b";jsessionid=1",
        b"utm_source=x",
        b"sid=1",
        b"|",
        b"[",
        b"[::1]",
        b"0x7f.1",
        b"xn--a",
        b"\xf0\x9f\x92\xa9",
        b"\0",
        b"\x7f",
    ],
    "robots": [
        b"User-agent:",
        b"Disallow:",
        b"Allow: /",
        b"*",
        b"$",
        b"\n",
        b"\r",
        b"\r\n",
        b"#",
        b":",
        b"Crawl-delay: 1e9",
        b"Sitemap: /",
        b"crawlkit",
        b"%2a",
        b"%",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\0",
        b"Content-Signal: ai-train=no",
        b" ",
        b"\xc3",
    ],
    "sitemaps": [
        b"<urlset>",
        b"</urlset>",
        b"<url>",
        b"</url>",
        b"<loc>",
        b"</loc>",
        b"<lastmod>2024-13-40",
        b"<image:image>",
        b"<rss>",
        b"<item>",
        b"<feed>",
        b"<entry>",
        b'<link href="',
        b'"/>',
        b"http://site.example/a",
        b"<![CDATA[",
        b"]]>",
        b"<!--",
        b"-->",
        b"<?xml encoding='utf-16'?>",
        b"<!DOCTYPE x [",
        b"]>",
        b"&amp;",
        b"&#x110000;",
        b"&#0;",
        b"<",
        b">",
        b'"',
        b"'",
        b"\n",
        b"\0",
        b"\x1f\x8b\x08",
        b"\xff\xfe",
        b"<sitemapindex>",
        b"<sitemap>",
        b"xml:base='//'",
    ],
    "html": [
        b"<a href=",
        b"<a href='x'>",
        b"</a>",
        b"<base href=",
        b"<meta charset=",
        b"<meta http-equiv=refresh content='0;url=",
        b"<meta name=robots content=",
        b"<link rel=canonical href=",
        b"<table>",
        b"<td>",
        b"<select>",
        b"<template>",
        b"<svg>",
        b"<math>",
        b"</p>",
        b"<b>",
        b"<script>",
        b"</script>",
        b"<script type=application/ld+json>[",
        b"<!--",
        b"-->",
        b"<![CDATA[",
        b"<plaintext>",
        b"<frameset>",
        b"<div itemscope itemprop=a>",
        b"<p typeof=x property=y>",
        b"&lt;",
        b"&#xD800;",
        b"'",
        b'"',
        b">",
        b"<",
        b"=",
        b"\0",
        b"\xff",
        b"\x1b$B",
        b"srcset='a 1x,,",
        b"hidden",
        b"style='display:none'",
    ],
}


def archive(path: str, ending: str = "") -> list[bytes]:
    with tarfile.open(shared(path)) as tar:
        return [tar.extractfile(m).read() for m in tar if m.isfile() and m.name.endswith(ending)]


@lru_cache
def seeds(kind: str) -> list[bytes]:
    """Valid and odd inputs that mutation starts from."""
    if kind == "urls":
        rows = [
            row
            for row in json.loads(shared("suites/wpt/urltestdata.json").read_text("utf-8"))
            if isinstance(row, dict)
        ]
        return [
            text.encode("utf-8", "replace")
            for row in rows
            for text in (row["input"], row.get("href") or "")
        ]
    if kind == "robots":
        return [body[:LONGEST] for body in archive("suites/robots_real/robots_half.tar.gz")]
    if kind == "sitemaps":
        return [
            body[:LONGEST]
            for ending in (".xml", ".rss", ".gz", ".txt")
            for body in archive("suites/crawler_commons/resources.tar.gz", ending)
        ]
    cases = [
        case.data.encode("utf-8", "replace")
        for case in tree_cases(shared("suites/html5lib/tree_construction_half.tar.gz"))
    ]
    cases += [
        text.encode("utf-8", "replace")
        for _, text in tokenizer_inputs(shared("suites/html5lib/tokenizer_half.tar.gz"))
    ]
    pages = archive("suites/scrapy/samples.tar.gz", ".html")
    return [c for c in cases if c] + [body[:LONGEST] for body in pages] * 40


def mutated(rng: random.Random, kind: str) -> bytes:
    """A seed with one to eight changes: bytes replaced, cut, repeated, or put in from another seed
    or the tokens; or noise.
    """
    pool, tokens = seeds(kind), TOKENS[kind]
    if rng.random() < 0.1:
        return b"".join(
            rng.choice(tokens) if rng.random() < 0.3 else rng.randbytes(rng.randint(1, 8))
            for _ in range(rng.randint(1, 12))
        )
    body = bytearray(rng.choice(pool))
    for _ in range(rng.randint(1, 8)):
        at = rng.randint(0, len(body))
        match rng.randrange(6):
            case 0:
                body[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del body[at : at + rng.choice((1, 2, 10, 1000))]
            case 2:
                body[at:at] = body[at : at + rng.choice((1, 5, 100))] * rng.choice((1, 2, 50))
            case 3:
                other = rng.choice(pool)
                start = rng.randint(0, len(other))
                body[at : at + rng.choice((0, 20))] = other[
                    start : start + rng.choice((5, 50, 500))
                ]
            case _:
                body[at : at + rng.randint(0, 3)] = rng.choice(tokens)
    return bytes(body[:60_000])


def check_url(raw: bytes, rng: random.Random) -> None:
    base = rng.choice((None, URL, "http://[::1]:8080/a/b?c"))
    try:
        found = canonicalize(
            raw if rng.random() < 0.5 else raw.decode("utf-8", "surrogateescape"), base
        )
    except Refused:
        return
    assert canonicalize(found) == found
    registered_domain(split(found).host)
    url_shape(found)
    scope_reason(found, 3, SCOPE, 2024)


def check_robots(raw: bytes, rng: random.Random) -> None:
    found = parser.parse(raw, truncated=rng.random() < 0.2)
    for url in (URL, "http://site.example/?q=%2A$", "http://site.example/a%2Fb/index.html"):
        found.match(rng.choice(("crawlkit", "googlebot", "")), url)
    found.crawl_delay_s("crawlkit")
    found.signals("crawlkit")
    found.sitemap_urls("http://site.example/robots.txt")


def check_sitemap(raw: bytes, rng: random.Random) -> None:
    found = sitemaps.parse(
        raw,
        URL,
        charset=rng.choice((None, "utf-8", "utf-16le", "gbk")),
        strict_location=rng.random() < 0.5,
    )
    assert all(canonicalize(entry.url) == entry.url for entry in found.entries)


def check_html(raw: bytes, rng: random.Random) -> None:
    kind = rng.choice(
        (
            "text/html",
            "text/html; charset=utf-8",
            "text/html; charset=shift_jis",
            "application/xhtml+xml",
            None,
            "text/plain",
            "application/json",
        )
    )
    headers = [
        ("Link", raw[:200].decode("latin-1")),
        ("X-Robots-Tag", raw[-200:].decode("latin-1")),
    ]
    page = parse_page(raw, URL, kind, headers if rng.random() < 0.3 else ())
    assert all(canonicalize(link.url) == link.url for link in page.outlinks)


CHECKS: dict[str, Callable[[bytes, random.Random], None]] = {
    "urls": check_url,
    "robots": check_robots,
    "sitemaps": check_sitemap,
    "html": check_html,
}


def fuzz(kind: str, count: int, seed: int = SEED) -> dict[str, float]:
    """Runs so many inputs; the slowest one's CPU seconds, and by how many MiB the process grew."""
    rng, check = random.Random(seed), CHECKS[kind]
    check(mutated(rng, kind), rng)  # what is loaded at the first use
    before, slowest, began = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        0.0,
        time.process_time(),
    )
    for n in range(count):
        raw = mutated(rng, kind)
        start = time.process_time()
        try:
            check(raw, rng)
        except Exception as e:
            raise AssertionError(f"{kind} input {n} of seed {seed}: {raw[:300]!r}") from e
        took = time.process_time() - start
        slowest = max(slowest, took)
        if took > MAX_INPUT_S:
            try:
                within(MAX_INPUT_S, lambda: check(raw, rng))
            except AssertionError as e:
                raise AssertionError(f"{kind} input {n} of seed {seed}: {raw[:300]!r}") from e
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MAX_MEMORY_MIB
    return {
        "count": count,
        "seed": seed,
        "slowest_s": slowest,
        "memory_mib": grown,
        "cpu_s": time.process_time() - began,
    }


@pytest.mark.parametrize("kind", CHECKS)
def test_share(kind):
    fuzz(kind, SHARE[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHECKS)
def test_total(kind):
    fuzz(kind, TOTAL)


@pytest.mark.slow
def test_canonical_form_of_a_million_urls():
    fuzz("urls", 1_000_000, SEED + 1)
