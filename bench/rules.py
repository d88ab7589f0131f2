"""Rules beside the libraries that do their work elsewhere, on real pages and robots files, outputs
compared first.

Each comparison runs both sides in one process, in turn; a ratio is that of one round, and their
median is reported.
"""

from __future__ import annotations

import gzip
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes, urljoin

import lxml.etree
import lxml.html
import tldextract
import w3lib.url
from crawlkit.config import Urls
from crawlkit.outcomes import Refused
from crawlkit.rules.page.encoding import decode_utf8
from crawlkit.rules.page.links import anchor_urls
from crawlkit.rules.page.markup import read_addresses, read_html
from crawlkit.rules.robots import parser as robots
from crawlkit.rules.url.canonical import canonicalize, host_of
from crawlkit.rules.url.domains import registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from jwm.robotstxt import googlebot
from protego import Protego

from bench.measure import members, paired, write

URL = "https://www.example.org/news/2024/story.html"
TYPE = "text/html; charset=utf-8"  # both sides are told
AGENT = "crawlkit"
# w3lib keeps tracking and session parameters: so do we here.
POLICY = UrlPolicy.of(Urls(remove_tracking=False, remove_session=False))
MARKS = {"addresses": 10.0, "links and text": 10.0, "robots": 1.0, "canonical": 4.0}
_UNSEEN = (
    "script style iframe noframes noembed template title audio video object canvas datalist head"
).split()
_TEXT = lxml.etree.XPath(f"//text()[not({' or '.join(f'ancestor::{tag}' for tag in _UNSEEN)})]")
_HIDDEN = lxml.etree.XPath(
    "//*[@hidden or contains(@style, 'display:none') or contains(@style, 'display:"
    " none')][not(self::html or self::body or self::main or self::article)]"
)
_extract = tldextract.TLDExtract(
    suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True
)

Kinds = Counter[str]


def our_addresses(body: bytes) -> list[tuple[str, str]]:
    urls = anchor_urls(read_addresses(decode_utf8(body, TYPE)[0]), URL, policy=POLICY)
    return [(url, registered_domain(host_of(url))) for url in urls]


def lxml_tree(body: bytes) -> lxml.html.HtmlElement:
    return lxml.html.fromstring(body, parser=lxml.html.HTMLParser(encoding="utf-8"))


def lxml_hrefs(tree: lxml.html.HtmlElement) -> list[str]:
    return [
        link
        for element, attribute, link, _ in tree.iterlinks()
        if attribute == "href" and element.tag in ("a", "area")
    ]


def library_addresses(body: bytes) -> list[tuple[str, str]]:
    out = []
    for href in lxml_hrefs(lxml_tree(body)):
        try:
            url = w3lib.url.canonicalize_url(urljoin(URL, href))
        except ValueError:
            continue
        if url.startswith("http"):
            found = _extract(url)
            out.append((url, found.top_domain_under_public_suffix or found.domain))
    return out


def our_text(body: bytes) -> tuple[list[str], str]:
    doc = read_html(decode_utf8(body, TYPE)[0])
    return [a.href for a in doc.anchors], doc.text


def library_text(body: bytes) -> tuple[list[str], str]:
    tree = lxml_tree(body)
    return lxml_hrefs(tree), "\n".join([" ".join(text.split()) for text in _TEXT(tree)])


def compare_addresses(pages: list[bytes]) -> Kinds:
    """Distinct (URL, domain) of each page."""
    kinds: Kinds = Counter()
    for body in pages:
        ours, theirs = set(our_addresses(body)), set(library_addresses(body))
        kinds["equal"] += len(ours & theirs)
        by_meaning = {meaning(url): url for url, _ in theirs - ours}
        for url, _ in sorted(ours - theirs):
            kinds[ONLY_HERE if by_meaning.pop(meaning(url), None) is None else AS_FORM] += 1
        kinds[
            "only lxml (it resolves against the page where a `base` says otherwise, HTML Standard"
            " 4.2.3; it reads inside `template`, 4.12.3)"
        ] += len(by_meaning)
    return kinds


ONLY_HERE = (
    "only here: resolved against the page's `base` (HTML Standard 4.2.3), which iterlinks leaves to"
    " its caller"
)
AS_FORM = (
    "query rewritten as a form's by w3lib (`+` for `%20`, reserved characters escaped, `=` added);"
    " URL Standard 4.4 and RFC 3986 2.2 keep them as sent"
)


def meaning(url: str) -> tuple[str, tuple[bytes, ...]]:
    """A URL with its query as a form would read it, to pair spellings of one address."""
    head, _, query = url.partition("?")
    return head, tuple(
        sorted(
            unquote_to_bytes(p.replace("+", " ")).removesuffix(b"=") for p in query.split("&") if p
        )
    )


def compare_text(pages: list[bytes]) -> Kinds:
    kinds: Kinds = Counter()
    for body in pages:
        (hrefs, text), lib_hrefs = our_text(body), lxml_hrefs(lxml_tree(body))
        ours, theirs = Counter(h.strip() for h in hrefs), Counter(h.strip() for h in lib_hrefs)
        kinds["hrefs equal"] += (ours & theirs).total()
        kinds["hrefs only here"] += (ours - theirs).total()
        kinds["hrefs only in lxml (inside `template`: HTML Standard 4.12.3)"] += (
            theirs - ours
        ).total()
        tree = lxml_tree(body)
        words = Counter(re.findall(r"\w+", "\n".join(_TEXT(tree))))
        for element in _HIDDEN(tree):
            element.drop_tree()
        shown = Counter(re.findall(r"\w+", "\n".join(_TEXT(tree))))
        kinds[
            "words of elements that `hidden` or `display: none` hides (lxml; HTML Standard 6.1,"
            " 15.3.1: not rendered)"
        ] += (words - shown).total()
        found = Counter(re.findall(r"\w+", text))
        kinds["words equal"] += (found & shown).total()
        kinds["words only here (whole where lxml's text nodes cut them at inline elements)"] += (
            found - shown
        ).total()
        kinds["words only in lxml"] += (shown - found).total()
    return kinds


def robots_urls(body: bytes) -> list[str]:
    """Addresses that the file's own rules are about, and one that they are not."""
    rng = random.Random(len(body))
    patterns = re.findall(rb"(?im)^(?:dis)?allow\s*:\s*(/[\x21-\x7e]*)", body)
    chosen = rng.sample(patterns, min(4, len(patterns)))
    return [
        URL,
        *(
            "https://www.example.org" + p.decode().replace("*", "x").replace("$", "")
            for p in chosen
        ),
    ]


def our_robots(job: tuple[bytes, list[str]]) -> list[bool]:
    parsed = robots.parse(job[0])
    return [parsed.match(AGENT, url).allowed for url in job[1]]


def library_robots(job: tuple[bytes, list[str]]) -> list[bool]:
    parsed = Protego.parse(job[0].decode("utf-8", "replace"))
    return [parsed.can_fetch(url, AGENT) for url in job[1]]


def compare_robots(jobs: list[tuple[bytes, list[str]]]) -> Kinds:
    kinds: Kinds = Counter()
    google = googlebot.RobotsMatcher()
    for body, urls in jobs:
        for url, ours, theirs in zip(
            urls, our_robots((body, urls)), library_robots((body, urls)), strict=True
        ):
            if ours == theirs:
                kinds["equal"] += 1
            else:
                agrees = google.OneAgentAllowedByRobots(body, AGENT, url) == ours
                kinds[
                    (
                        "Google's parser says as we do"
                        if agrees
                        else "Google's parser says as Protego does"
                    )
                ] += 1
    return kinds


def our_canonical(url: str) -> str | None:
    try:
        return canonicalize(url, None, POLICY)
    except Refused:
        return None


def library_canonical(url: str) -> str | None:
    try:
        return w3lib.url.canonicalize_url(url)
    except ValueError:
        return None


def compare_canonical(urls: list[str]) -> Kinds:
    kinds: Kinds = Counter()
    for url in set(urls):
        ours, theirs = our_canonical(url), library_canonical(url)
        if ours == theirs:
            kinds["equal"] += 1
        elif ours is None:
            kinds[
                "refused here (no http URL)" if not url.startswith("http") else "refused here"
            ] += 1
        else:
            kinds[
                AS_FORM if theirs is not None and meaning(ours) == meaning(theirs) else "other"
            ] += 1
    return kinds


def both(
    ours: Callable[[Any], Any], theirs: Callable[[Any], Any], inputs: list[Any]
) -> dict[str, Any]:
    return paired(
        {"here": lambda: [ours(x) for x in inputs], "library": lambda: [theirs(x) for x in inputs]}
    )


def main() -> None:
    pages = [
        gzip.decompress(body)
        for _, body in members("suites/articles/articles_half.tar.gz", ".html.gz")
    ]
    files = [body for _, body in members("suites/robots_real/robots_half.tar.gz")]
    jobs = [(body, robots_urls(body)) for body in files]
    urls = [urljoin(URL, href.strip()) for body in pages for href in our_text(body)[0]]
    rows = [
        (
            "addresses",
            "parse, links, canonical form, registered domain",
            "lxml.html iterlinks, w3lib canonicalize_url, tldextract",
            "page",
            len(pages),
            compare_addresses(pages),
            both(our_addresses, library_addresses, pages),
        ),
        (
            "links and text",
            "links and visible text",
            "lxml.html iterlinks, text()",
            "page",
            len(pages),
            compare_text(pages),
            both(our_text, library_text, pages),
        ),
        (
            "robots",
            "robots.txt parse and match",
            "Protego",
            "file",
            len(files),
            compare_robots(jobs),
            both(our_robots, library_robots, jobs),
        ),
        (
            "canonical",
            "canonical form",
            "w3lib canonicalize_url",
            "URL",
            len(urls),
            compare_canonical(urls),
            both(our_canonical, library_canonical, urls),
        ),
    ]
    lines = [
        "| what | library | µs here (CPU) | µs library (CPU) | CPU ratio | wall ratio | mark |",
        "|---|---|---|---|---|---|---|",
    ]
    differences = ["", "Outputs, by kind:", ""]
    result: dict[str, Any] = {}
    for name, what, library, unit, n, kinds, times in rows:
        here, there = times["here"], times["library"]
        result[name] = {"inputs": n, "outputs": kinds, "times": times, "mark": MARKS[name]}
        lines.append(
            f"| {what}, a {unit} | {library} | {here['cpu_s'] / n * 1e6:.1f} |"
            f" {there['cpu_s'] / n * 1e6:.1f} | {there['cpu_ratio']:.2f} |"
            f" {there['wall_ratio']:.2f} | {MARKS[name]:.0f} |"
        )
        differences += [
            f"- {what}: " + "; ".join(f"{kind}: {count}" for kind, count in kinds.items())
        ]
    write(
        "rules",
        result,
        "\n".join(["# Rules beside libraries", "", *lines, *differences, ""]),
        ("ada-url", "selectolax", "lxml", "w3lib", "tldextract", "Protego"),
    )
