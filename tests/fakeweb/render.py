"""From a page of the plan to the answer on the wire."""

from __future__ import annotations

import gzip
import html
import zlib
from email.utils import formatdate, parsedate_to_datetime

from crawlkit.local.web_server import Reply, Request

from tests.fakeweb.plan import FakeWeb, Host, Link, Page
from tests.fakeweb.words import sentences

_PAD = b"<!-- " + b"0123456789 abcdefghij " * 46 + b"-->\n"
_BOMS = {"utf-8": b"\xef\xbb\xbf", "utf-16le": b"\xff\xfe"}


def reply(web: FakeWeb, request: Request, day: int, times: int) -> Reply:
    """The answer to a request on a day; `times`: how often this URL was asked before."""
    host = web.hosts.get(request.host)
    if host is None or host.address != request.address:
        return Reply(421, [("Content-Type", "text/plain")], b"no such host here\n")
    answer = _answer(web, host, request, day, times)
    answer.delay_s = host.delay_s
    return answer


def _answer(web: FakeWeb, host: Host, request: Request, day: int, times: int) -> Reply:
    if request.target == "/robots.txt":
        return _robots(host, day)
    if request.target in host.extra:
        return Reply(
            200, [("Content-Type", "text/plain; charset=utf-8")], host.extra[request.target]
        )
    page = web.page(f"http://{host.name}{request.target}")
    if page is None:
        return Reply(
            404,
            [("Content-Type", "text/html")],
            b"<!doctype html><title>Not found</title><p>There is no such page.",
        )
    if page.fault:
        return _fault(page, day)
    status = (
        200 if page.recovers_after is not None and times >= page.recovers_after else page.status
    )
    if status != 200:
        headers = [("Content-Type", "text/html")]
        if page.location:
            headers.append(("Location", page.location))
        if page.retry_after_s is not None:
            headers.append(("Retry-After", str(page.retry_after_s)))
        return Reply(
            status,
            headers,
            f"<!doctype html><title>{status}</title><p>Answer {status} of"
            f" {html.escape(page.title)}.".encode(),
        )
    headers = _headers(page, day)
    if _unchanged(page, day, request.headers):
        return Reply(
            304, [h for h in headers if h[0] in ("ETag", "Last-Modified", "Cache-Control")]
        )
    raw = body(page, day)
    if page.coding == "gzip":
        headers.append(("Content-Encoding", "gzip"))
        raw = gzip.compress(raw, 6, mtime=0)
    return Reply(200, headers, raw, framing=page.framing)


def _robots(host: Host, day: int) -> Reply:
    robots = host.robots
    headers = [("Content-Type", "text/plain")]
    if robots.location:
        headers.append(("Location", robots.location))
        return Reply(robots.status, headers)
    if robots.retry_after_s is not None:
        headers.append(("Retry-After", str(robots.retry_after_s)))
    return Reply(
        robots.status, headers, robots.text(day) if robots.status == 200 else b"not here\n"
    )


def _fault(page: Page, day: int) -> Reply:
    whole = body(page, day)
    if page.fault == "reset":
        return Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/ht", ending="reset")
    if page.fault == "cut":
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length:"
            f" {len(whole) + 2000}\r\n\r\n".encode()
        )
        return Reply(raw=head + whole)
    if page.fault == "garbage":
        return Reply(raw=b"\x16\x03\x01 this is not the protocol you are looking for\r\n\r\n")
    return Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", ending="stall")


def _headers(page: Page, day: int) -> list[tuple[str, str]]:
    kind = page.content_type
    if page.declared == "wrong":
        kind += "; charset=utf-8"
    elif page.declared == "header" and kind.startswith("text/"):
        kind += f"; charset={page.charset}"
    headers = [("Content-Type", kind)]
    if etag := page.etag(day):
        headers.append(("ETag", etag))
    if (modified := page.modified(day)) is not None:
        headers.append(("Last-Modified", formatdate(modified, usegmt=True)))
    headers += [("X-Robots-Tag", value) for value in page.x_robots]
    headers += [("Link", f'<{a.href}>; rel="next"') for a in page.links if a.how == "header"]
    return headers


def _unchanged(page: Page, day: int, headers: dict[str, str]) -> bool:
    """RFC 9110 13.2.2: If-None-Match decides where it is given."""
    if etag := headers.get("if-none-match"):
        return etag.removeprefix("W/") == page.etag(day)
    since, modified = headers.get("if-modified-since"), page.modified(day)
    if not since or modified is None:
        return False
    try:
        return parsedate_to_datetime(since).timestamp() >= modified
    except (ValueError, TypeError):
        return False


def body(page: Page, day: int) -> bytes:
    """The payload before any content coding."""
    if page.content_type == "image/png":
        return b"\x89PNG\r\n\x1a\n" + zlib.compress(page.title.encode())
    if page.content_type == "text/plain":
        return "\n".join([page.title, *sentences(page.body(day))]).encode()
    text = _html(page, day)
    raw = text.encode(page.charset, "strict")
    if page.declared == "bom":
        raw = _BOMS[page.charset] + raw
    if page.pad_bytes:
        head, mark, rest = raw.partition(b"</body>")
        raw = head + _PAD * (page.pad_bytes // len(_PAD) + 1) + mark + rest
    return raw


def _html(page: Page, day: int) -> str:
    lines = sentences(page.body(day))
    paras = [" ".join(lines[i : i + 4]) for i in range(0, len(lines), 4)]
    head = [f"<title>{html.escape(page.title)}</title>"]
    if page.declared == "meta":
        head.insert(0, f'<meta charset="{page.charset}">')
    if page.base:
        head.append(f'<base href="{page.base}">')
    if page.meta:
        head.append(f'<meta name="robots" content="{page.meta}">')
    for link in page.links:
        if link.how == "next":
            head.append(f'<link rel="next" href="{_attr(link)}">')
        elif link.how == "refresh":
            head.append(f'<meta http-equiv="refresh" content="5; url={_attr(link)}">')
    rest = [_beside(a) for a in page.links if a.how in ("area", "frame", "comment", "script")]
    if page.churn:
        rest.append(f"<!-- made on day {day} -->")
    anchors = [
        (_attr(a), ' rel="nofollow"' if a.why == "nofollow" else "", html.escape(a.text))
        for a in page.links
        if a.how == "a"
    ]
    if page.malformed:
        return _MALFORMED[page.malformed](page.title, head, paras, anchors, rest)
    mark = ("", ' class="text"', ' style="margin:1em"')[page.skin]
    out = [
        f'<!doctype html>\n<html lang="en"><head>{"".join(head)}</head>\n<body{mark}>',
        f"<h1{mark}>{html.escape(page.title)}</h1>",
    ]
    out += [f"<p{mark}>{p}</p>" for p in paras]
    out.append(
        "<ul>"
        + "\n".join(f'<li><a href="{href}"{rel}>{text}</a></li>' for href, rel, text in anchors)
        + "</ul>"
    )
    return "\n".join([*out, *rest, "</body></html>\n"])


def _attr(link: Link) -> str:
    return html.escape(link.href)


def _beside(link: Link) -> str:
    href = _attr(link)
    if link.how == "area":
        return f'<map name="m"><area shape="rect" coords="0,0,9,9" href="{href}" alt=""></map>'
    if link.how == "frame":
        return f'<iframe src="{href}"></iframe>'
    if link.how == "comment":
        return f'<!-- <a href="{href}">not a link</a> -->'
    return f"<script>var s = '<a href=\"{href}\">not a link</a>';</script>"


# 1: nothing closed, attributes bare; 2: upper case, single quotes, stray end tags; 3: misnested, a
# NUL, an attribute twice;
# 4: no head or body, a table that is broken open, an unended tag at the end
_MALFORMED = {
    1: lambda t, head, ps, links, rest: (
        f"<html><head>{''.join(head)}<body><h1>{t}<p>{'<p>'.join(ps)}<ul>"
        + "".join(f"<li><a href={h}{r}>{x}</a>" for h, r, x in links)
        + "".join(rest)
    ),
    2: lambda t, head, ps, links, rest: (
        f"<HTML><HEAD>{''.join(head)}</HEAD></p></div><BODY><H1>{t}</H1></span>"
        + "".join(f"<P>{p}</P></b>" for p in ps)
        + "".join(f"<A CLASS=x HREF='{h}'{r} >{x}</A >\n" for h, r, x in links)
        + "".join(rest)
        + "</table></BODY></HTML></HTML>"
    ),
    3: lambda t, head, ps, links, rest: (
        f"<!doctype html><html><head>{''.join(head)}</head><body><h1>{t}</h1>"
        + "".join(f"<b><i><p>{p}</b></i>" for p in ps)
        + "".join(
            f'<div><a href="{h}" href="/second-attribute"{r}>{x}</div></a>\n' for h, r, x in links
        )
        + "<p>\0</p>"
        + "".join(rest)
        + "</body>"
    ),
    4: lambda t, head, ps, links, rest: (
        f"{''.join(head)}<h1>{t}</h1><table><tr>"
        + "".join(f"<p>{p}" for p in ps)
        + "".join(f'<td><a\nhref = "{h}"{r}\n>{x}</a>' for h, r, x in links)
        + "".join(rest)
        + '</table><a href="/unended'
    ),
}
