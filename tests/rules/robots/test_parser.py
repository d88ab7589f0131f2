"""rules.robots against RFC 9309's examples, Google's rows, real files beside Google's parser, and
hostile files.
"""

from __future__ import annotations

import base64
import random
import re
import tarfile
from functools import lru_cache

import pytest
from crawlkit.outcomes import Refused
from crawlkit.rules.robots import matcher as robots_match
from crawlkit.rules.robots.parser import Signal, is_product_token, parse, parse_crawl_delay
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize
from hypothesis import given, strategies as st

from tests.cputime import within
from tests.examples import examples
from tests.shared_data import shared, shared_rows

AS_SENT = UrlPolicy(remove_session=False)

# Google's rows that we answer otherwise, each by the standard.
GOOGLE_OTHERWISE = {
    "g064": "RFC 9309 2.2.2: octets outside ASCII are escaped before comparison, in the URL too",
    "g066": "the same",
    "g067": "RFC 9309 2.2.2: the escape of an unreserved character equals the character",
    "g079": "GoogleOnly: index.html stands for its folder; no such rule in RFC 9309",
    "g142": "GoogleOnly: lines are cut after 16,664 bytes; RFC 9309 knows no such limit",
    "g145": "the same",
}


def test_rfc_rows():
    rows = shared_rows("suites/rfc9309/robots_rfc9309.jsonl")
    assert len(rows) == 39
    for row in rows:
        assert (
            parse(row["robots_txt"].encode()).match(row["agent"], row["url"]).allowed
            == row["allowed"]
        ), row


def test_google_rows():
    rows = shared_rows("suites/robots_google/robots_google.jsonl")
    assert len(rows) == 145
    otherwise = {
        row["id"]
        for row in rows
        if parse(row["robots_txt"].encode()).match(row["agent"], row["url"]).allowed
        != row["allowed"]
    }
    assert otherwise == set(GOOGLE_OTHERWISE)
    assert not any(row["standard"] and "note" not in row for row in rows if row["id"] in otherwise)


def test_google_tokens():
    for row in shared_rows("suites/robots_google/product_tokens.jsonl"):
        assert is_product_token(row["token"]) == row["valid"], row


def test_a_version_of_ours_plays_no_part():
    robots = parse(b"User-agent: *\nDisallow: /\n\nUser-agent: MyBot/2\nCrawl-delay: 3\nAllow: /\n")
    for agent in ("mybot", "MyBot/1.0", "mybot/"):
        assert (
            robots.match(agent, "http://a.example/x").allowed and robots.crawl_delay_s(agent) == 3
        )
    assert not robots.match("mybots/1.0", "http://a.example/x").allowed


def test_google_lines():
    for row in shared_rows("suites/robots_google/lines.jsonl"):
        robots = parse(
            base64.b64decode(row["robots_b64"])
            if "robots_b64" in row
            else row["robots_txt"].encode()
        )
        if "sitemaps" in row:
            assert list(robots.sitemaps) == row["sitemaps"]
        elif "last_rule_line" in row:
            assert robots.match("bar", "http://h.example/x").line_no == row["last_rule_line"]
            assert robots.match("foo", "http://h.example/some/path").line_no == 2
        else:  # byte order marks: where a line is lost, so is the group or its rule
            match = robots.match("foo", "http://h.example/AnyValue")
            assert (match.group == "foo" and match.line_no == 2) == (row["valid_lines"] == 2), row


def test_crawler_commons_sitemap_lines():
    with tarfile.open(shared("suites/crawler_commons/resources.tar.gz")) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    rows = shared_rows("suites/crawler_commons/robots_sitemap_lines.jsonl")
    assert len(rows) == 24
    for row in rows:
        body = next(body for name, body in files.items() if name.endswith(row["file"]))
        assert list(parse(body).sitemaps) == row["sitemap_lines"], row["file"]


GROUPS = b"""User-agent: mybot
Crawl-delay: 10
User-agent: yourbot
Disallow: /private/
User-agent: *
Content-Signal: search=yes, ai-train=no
Content-Usage: /archive/ train-ai=n
Allow: /
User-agent: yourbot
Disallow: /login/
Crawl-delay: 2
Crawl-delay: 4
User-agent: *
Crawl-delay: 30
"""


def test_delays_belong_to_the_tokens_before_them():
    robots = parse(GROUPS)
    assert [robots.crawl_delay_s(agent) for agent in ("mybot", "yourbot", "other")] == [10, 4, 30]
    assert not robots.match(
        "mybot", "http://h.example/private/"
    ).allowed  # the group is one all the same
    assert robots.match("mybot", "http://h.example/login/").allowed


def test_signals():
    robots = parse(b"Content-Signal: search=yes\n" + GROUPS)
    everybody = Signal("content-signal", None, "search", "yes")
    assert robots.signals("mybot") == (everybody,)
    assert robots.signals("other")[1:] == (
        Signal("content-signal", None, "search", "yes"),
        Signal("content-signal", None, "ai-train", "no"),
        Signal("content-usage", "/archive/", "train-ai", "n"),
    )


def test_match_names_its_rule():
    match = parse("User-agent: a\n\nDisallow: /\u00e9*x # why\nAllow: /y\n".encode()).match(
        "A", "http://h.example/%c3%A9/x"
    )
    assert match == (False, 3, "Disallow: /\u00e9*x", "a")


@pytest.mark.parametrize(
    "rules, path, allowed",
    [
        ("Disallow: /", "/robots.txt", True),  # RFC 9309 2.2.2: implicitly allowed
        ("Disallow: /a%2Fb", "/a/b", True),  # reserved: the escape is not the character
        ("Disallow: /a%2fb", "/a%2Fb/c", False),
        ("Disallow: /%2A", "/*x", False),
        ("Disallow: /a%24", "/a$", False),
        ("Disallow: /a$$", "/a$", False),
        ("Disallow: /a$$", "/a$b", True),
        ("Disallow: /a b", "/a%20b", False),
        ("Disallow: /?q='", "/?q=%27", False),
        ("Disallow: foo", "/foo", True),  # a pattern starts with / or *
        ("Disallow: /**a", "/xa", False),
        ("Disallow: /a*\nAllow: /a", "/ab", False),  # three octets before two
        ("Disallow: /a\nAllow: /a", "/a", True),  # Allow wins a tie
        ("Disallow: /*a*a*a*b$", "/aaab", False),
        ("Disallow: /*a*a*a*a*b$", "/aaab", True),
        ("Disallow: /x*yy$", "/xy", True),
        ("Disallow: /ab*b$", "/ab", True),  # the tail may not overlap what came before
        ("Disallow: /x*ab*ab*ab$", "/xabab", True),
        ("Disallow /a b", "/a", True),  # without a colon there must be two words
        ("Disallow /a", "/a", False),
        ("dissalow : /a", "/a", False),
        ("Desallow: /a", "/a", True),
    ],
)
def test_rules(rules, path, allowed):
    assert (
        parse(f"User-agent: *\n{rules}\n".encode()).match("x", "http://h.example" + path).allowed
        is allowed
    )


@pytest.mark.parametrize(
    "text, want",
    [
        ("3", 3),
        ("2.5", 2.5),
        (".5", 0.5),
        ("10.", 10),
        ("0", 0),
        (" 7\t", 7),
        ("9" * 400, 1e9),
        ("9" * 500, None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("5s", None),
        ("1_0", None),
        ("\u0663", None),
        ("1,5", None),
    ],
)
def test_crawl_delay_text(text, want):
    assert parse_crawl_delay(text) == want


def test_cut_files():
    body = b"User-agent: *\nDisallow: /a\nDisallow: /private-area\n"
    for size in range(len(body)):
        robots = parse(body, max_bytes=size)
        assert robots.match("x", "http://h.example/pxyz").allowed
        assert robots.match("x", "http://h.example/private-area").allowed == (
            size < len(body) - 1
        )  # whole once its line end is seen
    assert parse(body[:-4], truncated=True).match("x", "http://h.example/private-area").allowed


def test_sitemap_urls():
    robots = parse(
        b"Sitemap: /s.xml#x\nSitemap: ftp://h.example/\nSitemap: s.xml\nsite-map:"
        b" http://h.example/t.xml"
    )
    assert robots.sitemap_urls("http://h.example/robots.txt") == (
        "http://h.example/s.xml",
        "http://h.example/t.xml",
    )


def real_files() -> list[bytes]:
    with tarfile.open(shared("suites/robots_real/robots_half.tar.gz")) as tar:
        return [
            body
            for member in tar
            if member.isfile() and len(body := tar.extractfile(member).read()) <= 512_000
        ]


def pairs(body: bytes, rng: random.Random, count: int) -> list[tuple[str, str]]:
    """(agent, canonical URL) made from a file's own tokens and patterns."""
    text = body.decode("latin-1")
    agents = (
        ["crawlkit", "Googlebot", *rng.sample(found, min(2, len(found)))]
        if (found := re.findall(r"(?im)^\s*user-?agent\s*:\s*([A-Za-z_-]+)", text))
        else ["crawlkit"]
    )
    patterns = re.findall(r"(?im)^\s*(?:dis)?allow\s*:\s*([^\s#]+)", text)
    paths = ["/", "/index.html", "/a?b=c"]
    for pattern in rng.sample(patterns, min(8, len(patterns))):
        path = pattern.encode("latin-1").decode("utf-8", "replace").rstrip("$")
        paths += [
            path.replace("*", star) + end for star in ("", "x", "a/b") for end in ("", "zz")
        ] + [path[:-1]]
    out = []
    for path in rng.sample(paths, min(count, len(paths))):
        try:
            url = canonicalize(
                "http://h.example" + (path if path.startswith("/") else "/" + path), None, AS_SENT
            )
        except Refused:
            continue
        out += [(agent, url) for agent in agents if not url.endswith("/robots.txt")]
    return out


# Google compares the bytes as they stand; RFC 9309 2.2.2 wants both sides in one spelling first.
NOT_ASCII_URI = re.compile(
    r"[^A-Za-z0-9/._~!$&()*+,;:@=?\[\]%-]|%(?![0-9A-Fa-f]{2})|%(?:2[Dd]|2[EeAa]|24|27|3[0-9]"
    r"|4[1-9A-Fa-f]|5[0-9AaFf]|6[1-9A-Fa-f]|7[0-9AaEe])"
)


def agreement(files: list[bytes], rng: random.Random, count: int) -> tuple[int, int]:
    googlebot = pytest.importorskip("jwm.robotstxt.googlebot")
    matcher = googlebot.RobotsMatcher()
    asked = otherwise = 0
    for body in files:
        robots = parse(body)
        for agent, url in pairs(body, rng, count):
            asked += 1
            match = robots.match(agent, url)
            if matcher.OneAgentAllowedByRobots(body, agent, url) != match.allowed:
                rule = (
                    body.splitlines()[(match.line_no or 1) - 1]
                    .decode("utf-8", "replace")
                    .partition(":")[2]
                    .strip()
                )
                otherwise += not NOT_ASCII_URI.search(rule)
    return asked, otherwise


@pytest.mark.waits
def test_real_files_share():
    rng = random.Random(5)
    asked, otherwise = agreement(rng.sample(real_files(), 250), rng, 6)
    assert asked > 2000 and otherwise <= asked / 10_000


@pytest.mark.slow
def test_real_files():
    asked, otherwise = agreement(real_files(), random.Random(6), 14)
    assert asked > 50_000 and otherwise <= asked / 10_000


@lru_cache
def hostile() -> dict[str, bytes]:
    rng = random.Random(1)
    n = 10_000
    tokens = [bytes([97 + i % 26, 97 + i // 26 % 26, 97 + i // 676 % 26]) for i in range(17_000)]
    any_of = lambda pool, k: b"*".join(rng.choice(pool) for _ in range(k))  # noqa: E731
    return {
        "one letter": (
            b"User-agent: *\n"
            + b"".join(b"Disallow: /" + b"*a" * 15 + b"%d$\n" % i for i in range(n))
        ),
        "two letters": (
            b"User-agent: *\n"
            + b"".join(b"Disallow: /*" + any_of([b"a", b"b"], 18) + b"\n" for _ in range(n))
        ),
        "short pieces": (
            b"User-agent: *\n"
            + b"".join(
                b"Disallow: /*" + any_of([b"a", b"ab", b"aba", b"bb"], 11) + b"*ba*a$\n"
                for _ in range(n)
            )
        ),
        "stars": b"User-agent: *\nDisallow: /" + b"*" * 490_000,
        "tokens and rules": (
            b"".join(b"User-agent:" + t + b"\n" for t in tokens) + b"Disallow:/a\n" * 20_000
        ),
        "tokens and delays": (
            b"".join(b"User-agent:" + t + b"\n" for t in tokens) + b"Crawl-delay:1\n" * 17_000
        ),
        "one signal line": b"Content-Signal:" + b"a=b," * 120_000,
        "letters": b"Content-Signal:" + b"a" * 480_000,
        "blank": b"\n" * 500_000,
        "spaces": b"Disallow" + b" \t" * 245_000,
        "colons": b":\n" * 250_000,
    }


@pytest.mark.waits
@pytest.mark.parametrize("name", hostile())
def test_hostile_files_are_linear(name):
    """500 KiB parse within 0.2 s, and 10,000 patterns match 2 KiB within 10 ms."""
    body = hostile()[name]
    robots = within(0.3, lambda: parse(body))
    robots.match("x", "http://h.example/")
    for path in ("a" * 2047, "ab" * 1023, "a" * 1024 + "b" * 1023):
        within(0.01, lambda: robots.match("x", "http://h.example/" + path))


@pytest.mark.waits
@pytest.mark.parametrize("length", [4, 8, 16])
def test_pieces_that_are_almost_there_cost_no_search_each(length):
    """Each search reads the whole path; the parts of a piece tell before that it is not there."""
    half = "a" * (length // 2)
    robots = parse(
        "".join(
            [
                "User-agent: *\n",
                *(
                    f"Disallow: /*{half}{chr(65 + i % 26)}{chr(65 + i // 26 % 26)}{i:x}{half}\n"
                    for i in range(500_000 // (length + 20))
                ),
            ]
        ).encode()
    )
    robots.match("x", "http://h.example/")
    within(0.01, lambda: robots.match("x", "http://h.example/" + "a" * 2047))
    within(0.02, lambda: robots.match("x", "http://h.example/" + "a" * 60_000))


LINES = st.sampled_from(
    [
        b"User-agent: *",
        b"User-agent: x",
        b"Disallow: /",
        b"Disallow: /a*b$",
        b"Allow: /%",
        b"Crawl-delay: 1",
        b"Sitemap: /s",
        b"Disallow",
        b":",
        b"#",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\x00",
        b"Disallow: \xe9",
        b"Content-Signal: a=b",
    ]
)


@examples(100)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.lists(LINES, max_size=12).map(b"\n".join),
        st.lists(LINES, max_size=12).map(b"\r".join),
    ),
    st.text(max_size=30),
)
def test_never_raises(body, path):
    robots = parse(body)
    assert robots.match("x", "http://h.example/" + path).allowed in (True, False)
    robots.match(path, path)
    (
        robots.crawl_delay_s("x"),
        robots.signals("x"),
        robots.sitemap_urls("http://h.example/robots.txt"),
    )


@examples(400)
@given(
    st.lists(
        st.lists(
            st.sampled_from(["*", "a", "b", "ab", "aab", "/", "%2A", "abab", "aabbaabb"]),
            min_size=1,
            max_size=9,
        ).map("".join),
        min_size=1,
        max_size=9,
    ),
    st.text("ab/*", max_size=30),
)
def test_the_index_leaves_out_nothing_that_matches(patterns, path):
    rules = [
        robots_match.Rule(n % 4 == 0, f"/{text}*{'$' * (n % 3 == 0)}", n)
        for n, text in enumerate(patterns)
    ]
    matcher = robots_match.Matcher(rules)
    assert matcher._index is None
    one_by_one = matcher.decide("/" + path)
    matcher._index = robots_match._Index(matcher._wild)
    assert matcher.decide("/" + path) == one_by_one


def test_behind_the_limit_of_stars_nothing_is_fetched_that_a_pattern_may_forbid(monkeypatch):
    monkeypatch.setattr(robots_match, "MAX_STARS", 2)
    robots = parse(
        b"User-agent: *\nDisallow: /a*b\nAllow: /q*x\nDisallow: /p*q*rstuv$\nAllow: /p*/long\n"
        b"Allow: /pp\nDisallow: /q\n"
    )

    def allowed(path: str) -> bool:
        return robots.match("x", "http://h.example" + path).allowed

    assert not allowed("/a-b") and allowed("/a-c")
    assert not allowed("/p") and not allowed("/pp/long")  # 10 octets still come before the 3 of /pp
    assert allowed("/qx") and not allowed("/qq")  # the second `*` counts


def naive(pattern: str, path: str) -> bool:
    """A pattern by the letter of RFC 9309 2.2.3, as a regular expression."""
    anchored = pattern.endswith("$")
    parts = map(re.escape, (pattern[:-1] if anchored else pattern).split("*"))
    return re.match(".*".join(parts) + (r"\Z" if anchored else ""), path) is not None


@examples(150)
@given(
    st.lists(st.tuples(st.booleans(), st.text("ab/*", max_size=8), st.booleans()), max_size=8),
    st.text("ab/", max_size=10),
)
def test_longest_match_law(rules, path):
    """The rule with the most octets decides, Allow in a tie, by a second implementation."""
    lines = [(allow, "/" + text + "$" * end) for allow, text, end in rules]
    body = "User-agent: *\n" + "".join(
        f"{'Allow' if allow else 'Disallow'}: {pattern}\n" for allow, pattern in lines
    )
    found = [(len(pattern), allow) for allow, pattern in lines if naive(pattern, "/" + path)]
    assert parse(body.encode()).match("x", "http://h.example/" + path).allowed == (
        max(found)[1] if found else True
    )
