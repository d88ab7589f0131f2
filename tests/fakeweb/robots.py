"""Robots files of the synthetic web, with paths whose answer was worked out by hand from RFC 9309.

Each profile: the body, the Crawl-delay that it gives us (s), and path patterns with whether we may
fetch them; {a} and {b} stand for words.
"""

from __future__ import annotations

from typing import NamedTuple


class Profile(NamedTuple):
    body: bytes
    delay_s: float
    paths: tuple[tuple[str, bool], ...]


_LARGE = b"".join(
    b"# line %06d of a long preface that says nothing at all\n" % i for i in range(2000)
)
_TAIL = b"".join(
    b"# line %06d of an appendix that says no more than that\n" % i for i in range(9000)
)

PROFILES: dict[str, Profile] = {
    "none": Profile(b"", 0, (("/private/{a}", True),)),
    "empty": Profile(b"", 0, (("/private/{a}", True),)),
    # 2.2.1: without a group for our token the * group holds
    "star": Profile(
        b"User-agent: *\nDisallow: /private/\nDisallow: /Upper\n\nUser-agent:"
        b" otherbot\nDisallow: /\n",
        0,
        (
            ("/private/{a}.html", False),
            ("/privately/{a}", True),
            ("/Upper/{a}", False),
            ("/upper/{a}", True),
        ),
    ),
    # 2.2.1: our own group replaces the * group; the token is matched without case; groups of one
    # token are one
    "token": Profile(
        b"User-agent: *\r\nDisallow: /\r\n\r\nUser-agent: CrawlKit\r\nDisallow:"
        b" /closed/\r\n\r\nUser-agent: otherbot\r\nUser-agent: crawlkit\r\nDisallow: /shut\r\n",
        0,
        (("/closed/{a}", False), ("/shut-{a}.html", False), ("/open/{a}", True)),
    ),
    # 2.2.2: the longest match decides, * and $, and on a tie Allow
    "longest": Profile(
        b"User-agent: *\nDisallow: /docs/\nAllow: /docs/open/\nDisallow:"
        b" /docs/open/draft\nDisallow: /*.asp$\nDisallow: /*/print/\nDisallow: /tie/\nAllow:"
        b" /tie/\n",
        0,
        (
            ("/docs/{a}", False),
            ("/docs/open/{a}", True),
            ("/docs/open/draft-{a}", False),
            ("/files/{a}.asp", False),
            ("/files/{a}.asp?part={b}", True),
            ("/{a}/print/{b}", False),
            ("/print/{a}", True),
            ("/tie/{a}", True),
        ),
    ),
    # 2.2.2: percent-encoded octets are compared
    "encoded": Profile(
        "User-agent: *\nDisallow: /café/\nDisallow: /%62ar/\n".encode(),
        0,
        (("/caf%C3%A9/{a}", False), ("/bar/{a}", False), ("/cafe/{a}", True)),
    ),
    "delay": Profile(
        b"User-agent: *\nCrawl-delay: 0.2\nDisallow: /slowly/never/\n",
        0.2,
        (("/slowly/{a}", True), ("/slowly/never/{a}", False)),
    ),
    "token-delay": Profile(
        b"User-agent: *\nCrawl-delay: 90\n\nUser-agent: crawlkit\nCrawl-delay: 0.15\nDisallow:"
        b" /held/\n",
        0.15,
        (("/held/{a}", False),),
    ),
    "bom": Profile(
        b"\xef\xbb\xbfUser-agent: crawlkit\nDisallow: /bom/\n",
        0,
        (("/bom/{a}", False), ("/ok/{a}", True)),
    ),
    # 2.5: at least 500 KiB are parsed; the rules stand behind 110 KB, the file is longer than 500
    # KiB
    "large": Profile(
        _LARGE + b"User-agent: *\nDisallow: /deep/\n" + _TAIL,
        0,
        (("/deep/{a}", False), ("/ok/{a}", True)),
    ),
    "denyall": Profile(
        b"User-agent: *\nDisallow: /\n", 0, (("/{a}", False), ("/any/{b}.html", False))
    ),
}

ORDINARY = (
    "none",
    "star",
    "token",
    "longest",
    "empty",
    "encoded",
    "delay",
    "bom",
    "token-delay",
    "large",
)
