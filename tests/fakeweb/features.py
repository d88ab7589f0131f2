"""The features: each function adds pages of one kind to a host.

What a page adds is a leaf unless its feature says else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fakeweb.plan import CALENDAR_START, MAX_BODY_BYTES, TOKEN, Link, Page
from tests.fakeweb.words import edited, jaccard, words

if TYPE_CHECKING:
    from tests.fakeweb.roles import Builder


def _redirect(b: Builder, host: str, to: str, status: int, location: str | None = None) -> Page:
    return b.add(
        Page(
            host,
            b.path(),
            b.title(),
            feature="redirect",
            status=status,
            to=to,
            location=location or to,
        )
    )


def _chain(b: Builder, host: str, end: str, hops: int) -> Page:
    """A chain of `hops` redirects to the URL `end`; the first of it is returned."""
    for i in range(hops):
        end_path = end.partition("#")[0]
        page = _redirect(b, host, end_path, (301, 302, 303, 307, 308)[i % 5])
        if page.to.startswith(f"http://{host}/") and i % 2:
            page.location = page.to.removeprefix(f"http://{host}") + "#there"
        end = page.url
    return page


def chains(b: Builder, host: str) -> None:
    for hops in (1, 2, 3, 4, 5):
        b.lead(_chain(b, host, b.page(host, feature="target").url, hops))
    abroad = b.page(b.elsewhere(host), feature="target")
    abroad.links.clear()  # found late for its depth: it must lead nowhere
    b.lead(_redirect(b, host, abroad.url, 301))
    # to a page that stands in the tree as well, and a ring of two: both ends are redirects
    b.lead(_redirect(b, host, f"http://{host}/", 302, "/"))
    left, right = b.path(), b.path()
    for path, to in ((left, right), (right, left)):
        b.add(
            Page(
                host,
                path,
                b.title(),
                feature="ring",
                status=302,
                location=to,
                to=f"http://{host}{to}",
            )
        )
    b.lead(b.pages[f"http://{host}{left}"])


def long_chain(b: Builder, host: str) -> None:
    """Thirteen redirects: the eleventh is one too many, what it leads to is never known."""
    b.lead(_chain(b, host, b.page(host, feature="beyond").url, 13))


def statuses(b: Builder, host: str) -> None:
    for status in (404, 410, 451, 403, 406):
        b.lead(b.page(host, feature="status", status=status))
    b.lead(b.page(host, feature="recovers", status=503, retry_after_s=1, recovers_after=1))
    b.lead(b.page(host, feature="recovers", status=429, retry_after_s=1, recovers_after=1))
    b.lead(b.page(host, feature="recovers", status=500, recovers_after=2))
    # a link to a page that is not there at all
    at, path = b.enter(host), b.path("gone")
    at.links.append(Link(path, f"http://{host}{path}", text="an old address"))


def errors(b: Builder, host: str) -> None:
    b.lead(b.page(host, feature="status", status=500))
    b.lead(b.page(host, feature="status", status=404))


def faults(b: Builder, host: str) -> None:
    for fault in ("reset", "cut", "garbage"):
        b.lead(b.page(host, feature="fault", fault=fault))


def stall(b: Builder, host: str) -> None:
    b.lead(b.page(host, feature="fault", fault="stall"))


def duplicates(b: Builder, host: str) -> None:
    """Three copies within the host, one of them in other markup, and two on another host; same
    words, same links.
    """
    other = b.elsewhere(host, 5)
    first = b.page(host, feature="duplicate")
    first.links = [Link(f"http://{host}/", f"http://{host}/", text="home page")]
    for at, skin in ((host, 0), (host, 2), (other, 0), (other, 1)):
        copy = b.add(
            Page(at, b.path(), first.title, first.words, list(first.links), "duplicate", skin=skin)
        )
        b.lead(copy)
    b.lead(first)


def near(b: Builder, host: str) -> None:
    """Pairs of long texts: with one to four words changed (above 0.85), and with every seventh word
    changed (below 0.5).
    """
    for count in (1, 2, 4, 30):
        first = b.page(host, feature="near")
        first.words = words(b.rng, 220)
        second = b.add(
            Page(
                host,
                b.path(),
                first.title,
                edited(b.rng, first.words, count),
                list(first.links),
                "near",
            )
        )
        b.lead(first)
        b.lead(second)
        value = jaccard(first.text(), second.text())
        if not (value > 0.85 or value < 0.5):
            raise AssertionError(f"a pair on the border: {value}")
        (b.near if value > 0.85 else b.far).append((first.url, second.url, value))


def changing(b: Builder, host: str) -> None:
    for every, validators in (
        (1, "etag"),
        (1, ""),
        (2, "both"),
        (2, "modified"),
        (7, "etag"),
        (0, "etag"),
        (0, "modified"),
        (0, "both"),
    ):
        b.lead(b.page(host, feature="changing", every_days=every, validators=validators))
    b.lead(b.page(host, feature="churn", churn=True, validators="etag"))
    b.lead(b.page(host, feature="churn", churn=True))
    if b.hosts[host].robots.later:
        b.lead(
            b.page(
                host,
                b.path("withdrawn"),
                feature="robots",
                denied_from_day=b.hosts[host].robots.later[0],
            )
        )


def malformed(b: Builder, host: str) -> None:
    """Pages in broken HTML that lead to a page each, and hold links which are none."""
    for kind in (1, 2, 3, 4):
        page = b.lead(b.page(host, feature="malformed", malformed=kind))
        leaf = b.page(host, feature="target")
        page.links.append(Link(leaf.path, leaf.url, text=leaf.title))
        for how in ("comment", "script"):
            ghost = b.path("ghost")
            page.links.append(Link(ghost, f"http://{host}{ghost}", how, "not a link", "ghost"))


CHARSETS = (
    # charset, how it is declared, words, a path that is linked from the page, as written and
    # canonical
    (
        "windows-1251",
        "header",
        "Старая пристань у реки открыта каждый день кроме воскресенья",
        "/страница-{n}",
        "/%D1%81%D1%82%D1%80%D0%B0%D0%BD%D0%B8%D1%86%D0%B0-{n}",
    ),
    (
        "windows-1251",
        "meta",
        "Новая мельница стоит за мостом и мелет муку для всей деревни",
        "/мост-{n}",
        "/%D0%BC%D0%BE%D1%81%D1%82-{n}",
    ),
    (
        "shift_jis",
        "meta",
        "港の朝市は毎週土曜日に開かれます 新鮮な魚と野菜が並びます",
        "/港-{n}",
        "/%E6%B8%AF-{n}",
    ),
    (
        "gbk",
        "header",
        "老图书馆收藏了许多关于河流和桥梁的书籍 每天上午开放",
        "/书-{n}",
        "/%E4%B9%A6-{n}",
    ),
    (
        "utf-16le",
        "bom",
        "Der Müller grüßt die Fähre über den schönen Fluß",
        "/fähre-{n}",
        "/f%C3%A4hre-{n}",
    ),
    (
        "utf-8",
        "bom",
        "La cigüeña anidó sobre el campanario de la iglesia pequeña",
        "/cigüeña-{n}",
        "/cig%C3%BCe%C3%B1a-{n}",
    ),
    (
        "utf-8",
        "none",
        "Żółta łódź płynie wzdłuż brzegu aż do przystani źródlanej",
        "/łódź-{n}",
        "/%C5%82%C3%B3d%C5%BA-{n}",
    ),
    (
        "iso-8859-1",
        "header",
        "Le château près de la forêt fut bâti après la guerre",
        "/château-{n}",
        "/ch%C3%A2teau-{n}",
    ),
)


def charsets(b: Builder, host: str) -> None:
    for charset, declared, text, written, canonical in CHARSETS:
        page = b.lead(b.page(host, feature="charset", charset=charset, declared=declared))
        page.marker = text.split()[1]
        page.words = text.lower().split() + page.words
        leaf = b.page(host, canonical.format(n=b.serial), feature="target")
        page.links.append(
            Link(written.format(n=leaf.path.rpartition("-")[2]), leaf.url, text=leaf.title)
        )
    # declared as UTF-8 but written in windows-1251: the words are lost, the links are not
    page = b.lead(b.page(host, feature="charset", charset="windows-1251", declared="wrong"))
    page.words = CHARSETS[0][2].lower().split() + page.words


def traps(b: Builder, host: str) -> None:
    for path in (CALENDAR_START, "/events/1990/02", "/maze/"):
        b.enter(host).links.append(Link(path, f"http://{host}{path}", text="calendar or maze"))


def follow(b: Builder, host: str) -> None:
    """Opt-outs: links that must not be followed, texts that must not be kept."""

    def leaf() -> Page:
        return b.page(host, feature="target")

    def nofollowed() -> Page:
        return b.page(host, b.path("never"), feature="unfollowed")

    page, to = b.lead(b.page(host, feature="nofollow_link")), nofollowed()
    page.links.append(Link(to.path, to.url, text=to.title, why="nofollow"))
    for meta, x_robots, noindex, nofollow in (
        ("nofollow", (), False, True),
        ("noindex", (), True, False),
        ("none", (), True, True),
        ("NOINDEX, Follow", (), True, False),
        (None, ("noindex",), True, False),
        (None, ("nofollow",), False, True),
        (None, ("otherbot: noindex, nofollow",), False, False),
        (None, (f"{TOKEN}: noindex", "otherbot: nofollow"), True, False),
    ):
        page = b.lead(
            b.page(
                host,
                feature="opt_out",
                meta=meta,
                x_robots=x_robots,
                noindex=noindex,
                nofollow=nofollow,
            )
        )
        to = nofollowed() if nofollow else leaf()
        page.links.append(Link(to.path, to.url, text=to.title))


def canonical(b: Builder, host: str) -> None:
    """Many ways to write two addresses."""
    name = f"page-{b.serial}.html"
    at = b.lead(b.page(host, f"/{words(b.rng, 1)[0]}/{name}", feature="canonical"))
    p = at.path
    for href in (
        f"http://{host}:80{p}",
        f"HTTP://{host.upper()}{p}",
        f"{p}#top",
        f"{p}?utm_source=letter&utm_medium=mail",
        f"{p}?fbclid=abc123",
        f"{p};jsessionid=0A1B2C3D4E5F60718293A4B5C6D7E8F9",
        f"/x/../.{p}",
        f"{p}?",
        f"http://user:secret@{host}{p}",
        f"http://{host}.{p}",
        f"  {p}\n",
        p.replace("page", "p%61ge"),
        f"\\{p[1:]}",
        name,
        f"./{name}",
        f"//{host}{p}",
    ):
        at.links.append(Link(href, at.url, text="the same"))
    at.links.append(Link(f"http://{host}", f"http://{host}/", text="home"))
    at = b.lead(b.page(host, f"/list-{b.serial}?order=name&part=2", feature="canonical"))
    stem = at.path.partition("?")[0]
    for query in (
        "part=2&order=name",
        "&order=name&&part=2",
        "order=name&PHPSESSID=0123456789abcdef0123456789abcdef&part=2",
        "order=name&part=2&gclid=xyz#list",
    ):
        b.enter(host).links.append(Link(f"{stem}?{query}", at.url, text="the same list"))


def base(b: Builder, host: str) -> None:
    leaf = b.page(host, f"/archive/{b.serial}/leaf.html", feature="target")
    page = b.lead(b.page(host, feature="base", base=leaf.path.removesuffix("leaf.html")))
    page.links.append(Link("leaf.html", leaf.url, text=leaf.title))


def transfer(b: Builder, host: str) -> None:
    for coding, framing in (
        (None, "chunked"),
        (None, "close"),
        ("gzip", "length"),
        ("gzip", "chunked"),
        ("gzip", "close"),
    ):
        page = b.lead(b.page(host, feature="transfer", coding=coding, framing=framing))
        leaf = b.page(host, feature="target")
        page.links.append(Link(leaf.path, leaf.url, text=leaf.title))


def types(b: Builder, host: str) -> None:
    b.lead(b.page(host, feature="large", pad_bytes=MAX_BODY_BYTES // 2))
    b.lead(b.page(host, feature="truncated", pad_bytes=MAX_BODY_BYTES * 2))
    for feature, content_type in (("binary", "image/png"), ("plain_text", "text/plain")):
        b.lead(b.page(host, feature=feature, content_type=content_type)).links.clear()
    for ending in ("png", "zip", "mp4"):
        path = b.path("file").partition("?")[0].rstrip("/") + "." + ending
        b.enter(host).links.append(
            Link(path, f"http://{host}{path}", text="a file", why="extension")
        )


def schemes(b: Builder, host: str) -> None:
    at = b.enter(host)
    for href in (
        "mailto:post@" + host,
        "javascript:void(0)",
        f"ftp://{host}/file",
        "data:text/html,hello",
        "tel:+100",
        "http://",
        "http://[bad",
        "about:blank",
    ):
        at.links.append(Link(href, None, text="elsewhere", why="unusable"))


def outside(b: Builder, host: str) -> None:
    """Names that do not resolve."""
    for word in words(b.rng, 2):
        url = f"http://{word}.invalid/"
        b.enter(host).links.append(Link(url, url, text="an outside name"))


def deep(b: Builder, host: str) -> None:
    """A line of 18 pages: its end is deeper than 15 links."""
    line = [b.page(host, feature="deep") for _ in range(18)]
    b.lead(line[0])
    for at, to in zip(line, line[1:], strict=False):
        at.links.append(Link(to.path, to.url, text=to.title))


def kinds(b: Builder, host: str) -> None:
    """Links that are not in an `a` element."""
    for how in ("area", "frame", "next", "refresh", "header"):
        page, leaf = b.lead(b.page(host, feature="kinds")), b.page(host, feature="target")
        page.links.append(Link(leaf.path, leaf.url, how, leaf.title))
