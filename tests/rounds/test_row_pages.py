"""What pages say of themselves and what is made of it, in whole rounds (D9, F6, G3, G6)."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import zipfile
import zlib
from types import SimpleNamespace

import pytest
from crawlkit.local.web_server import Reply
from crawlkit.parsing import plugins
from crawlkit.rules.page.other_formats import image_size

from tests.cli.call import call
from tests.engines import run_on
from tests.rounds.row_web import EPOCH, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
A = "http://a.example"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def png(width: int, height: int) -> bytes:
    """By the PNG specification (ISO/IEC 15948): signature, IHDR, IDAT, IEND."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes((width + 7) // 8)) * height)
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def docx(text: str) -> bytes:
    out = io.BytesIO()
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = f'<w:document xmlns:w="{space}"><w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body>'
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("word/document.xml", body + "</w:document>")
    return out.getvalue()


def install_plugin(folder) -> None:
    """A parser that a package of an operator brings, as pip would leave it."""
    (folder / "ourlog.py").write_text(
        "from crawlkit.rules.page.other_formats import PlainText\n\n\n"
        "def read(body, content_type):\n"
        "    return PlainText('read by a plug-in: ' + body.decode(), 'a log')\n"
    )
    about = folder / "ourlog-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ourlog\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{plugins.GROUP}]\napplication/x-our-log = ourlog:read\n"
        "application/x-broken = no.such.module:read\n"
    )


@pytest.fixture(scope="module")
def seen(on, tmp_path_factory):
    web = RowWeb(
        tmp_path_factory.mktemp("pages") / "crawl",
        {"a.example": "127.87.0.1"},
        on,
        fetch__content_types=[],
        scope__media_extensions=[],
    )
    out = SimpleNamespace(web=web, png=png(33, 7))
    signal = b"User-agent: *\nContent-Signal: search=yes, ai-train=no\nDisallow:\n"
    tag = "X-Robots-Tag"
    web.pages |= {
        f"{A}/robots.txt": Reply(200, [("Content-Type", "text/plain")], signal),
        f"{A}/plain": page("plain"),
        f"{A}/noarchive": page("noarchive", "", "", (tag, "noarchive")),
        f"{A}/over": page("over", "", "", (tag, "unavailable_after: 2025-12-31T00:00:00Z")),
        f"{A}/later": page("later", "", "", (tag, "unavailable_after: 2026-01-02")),
        f"{A}/reserved": page("reserved", "", "", ("tdm-reservation", "1")),
        f"{A}/notrain": page("notrain", head='<meta name="robots" content="notrain">'),
        f"{A}/image.png": Reply(200, [("Content-Type", "image/png")], out.png),
        f"{A}/doc": Reply(200, [("Content-Type", DOCX)], docx("minutes of the meeting")),
        f"{A}/log": Reply(200, [("Content-Type", "application/x-our-log")], b"line one"),
        f"{A}/en": page("in English", head=variants()),
        f"{A}/de": page("auf Deutsch", head=variants()),
    }
    folder = tmp_path_factory.mktemp("plugin")
    install_plugin(folder)
    with pytest.MonkeyPatch.context() as patch, web:
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        web.run(EPOCH, [u for u in web.pages if not u.endswith("robots.txt")])
    columns = ("kind", "title", "text", "metadata", "flags", "body_sha256", "noindex", "signals")
    out.pages = web.rows("pages", *columns)
    return out


def variants() -> str:
    links = (
        f'<link rel="alternate" hreflang="en" href="{A}/en">',
        f'<link rel="alternate" hreflang="de" href="{A}/de">',
        f'<link rel="alternate" media="only screen and (max-width: 640px)" href="{A}/m/en">',
        f'<link rel="amphtml" href="{A}/amp/en">',
        f'<link rel="next" href="{A}/en?page=2">',
    )
    return "".join(links)


def test_a_page_that_is_not_to_be_shown_any_more_has_no_text(seen):
    assert seen.pages[f"{A}/over"]["text"] is None
    assert "unavailable" in seen.pages[f"{A}/over"]["flags"]
    assert "unavailable" not in seen.pages[f"{A}/later"]["flags"]
    assert "words of its own" in seen.pages[f"{A}/later"]["text"]
    assert "words of its own" in seen.pages[f"{A}/noarchive"]["text"]  # for our own use


def test_noarchive_and_what_has_passed_since_go_into_no_file_for_others(seen, tmp_path):
    """The clock is past 2026-01-02, so /later has become unavailable too."""
    hidden = {f"{A}/noarchive", f"{A}/over", f"{A}/later"}
    data = ["--data", seen.web.folder, "--out"]
    wet = json.loads(call("export", "wet", *data, tmp_path / "wet", "--json").out)
    texts = b"".join(gzip.open(f).read() for f in wet["files"]).decode()
    assert f"{A}/plain" in texts
    assert not [u for u in hidden if f"WARC-Target-URI: {u}\r\n" in texts]
    call("export", "wacz", *data, tmp_path / "x.wacz")
    with zipfile.ZipFile(tmp_path / "x.wacz") as z:
        named = (
            z.read("pages/pages.jsonl").decode()
            + gzip.decompress(z.read("indexes/index.cdx.gz")).decode()
        )
    assert f"{A}/plain" in named
    assert not [u for u in hidden if u in named]
    call("export", "pages", *data, tmp_path / "pages.jsonl")
    rows = {r["url"]: r for r in map(json.loads, (tmp_path / "pages.jsonl").open())}
    assert rows[f"{A}/noarchive"]["noarchive"] is True
    assert "text" not in rows[f"{A}/noarchive"]
    assert "words of its own" in rows[f"{A}/plain"]["text"]


def test_opt_outs_are_rows_by_page_and_by_host(seen):
    names = ["host", "url", "found_in", "kind", "value"]
    rows = {tuple(r[n] for n in names) for r in seen.web.job().tables.rows("signals", names)}
    robots = f"{A}/robots.txt"
    assert rows == {
        ("a.example", f"{A}/reserved", "page", "tdm_reservation", "1"),
        ("a.example", f"{A}/notrain", "page", "ai", "notrain"),
        ("a.example", robots, "robots", "ai", "content-signal: search=yes, ai-train=no"),
    }
    assert seen.pages[f"{A}/reserved"]["text"] is not None  # recorded, and not enforced by default


RESERVING = b"""User-agent: other
Content-Signal: ai-train=no

User-agent: *
Content-Signal: search=yes, ai-train=no
Content-Signal: /open/ ai-train=yes
Content-Usage: /open/but/ train-ai=n
Allow: /
"""


def test_an_enforced_opt_out_leaves_no_text(on, tmp_path):
    hosts = {f"{n}.example": f"127.87.0.{i}" for i, n in enumerate("abc", 2)}
    plain = [("Content-Type", "text/plain")]
    of_hosts = (
        "b.example/page",
        "b.example/open/page",
        "b.example/open/but/page",
        "c.example/page",
    )
    with RowWeb(tmp_path / "c", hosts, on, parse__enforce_opt_outs=True) as web:
        web.pages["http://b.example/robots.txt"] = Reply(200, plain, RESERVING)
        other = RESERVING.partition(b"\n\n")[0] + b"\n"
        web.pages["http://c.example/robots.txt"] = Reply(200, plain, other)
        fields = {
            "reserved": ("tdm-reservation", "1"),
            "usage": ("Content-Usage", "train-ai=n"),
            "signal": ("Content-Signal", "ai-train=no"),
            "search": ("Content-Signal", "search=no, ai-train=yes"),
        }
        web.pages |= {f"{A}/{name}": page(name, "", "", f) for name, f in fields.items()}
        web.pages |= {f"http://{where}": page(where) for where in of_hosts}
        web.run(EPOCH, [u for u in web.pages if not u.endswith("robots.txt")])
        rows = web.rows("pages", "text", "main_text", "metadata", "flags")
    kept = {u.partition("//")[2] for u, r in rows.items() if r["text"] is not None}
    assert kept == {"a.example/search", "b.example/open/page", "c.example/page"}
    assert rows[f"{A}/usage"]["flags"] == ["opted_out"]
    assert rows[f"{A}/usage"]["main_text"] is None


def test_a_word_file_an_image_and_a_type_of_a_plug_in_are_read(seen):
    assert (seen.pages[f"{A}/doc"]["kind"], seen.pages[f"{A}/doc"]["text"]) == (
        "docx",
        "minutes of the meeting",
    )
    image = seen.pages[f"{A}/image.png"]
    assert (image["kind"], json.loads(image["metadata"])) == (
        "image",
        {"image": {"width": 33, "height": 7}},
    )
    assert image["body_sha256"] == hashlib.sha256(seen.png).hexdigest()
    log = seen.pages[f"{A}/log"]
    assert (log["title"], log["text"]) == ("a log", "read by a plug-in: line one")


def test_word_files_are_fetched_by_default(on, tmp_path):
    with RowWeb(tmp_path / "crawl", {"a.example": "127.87.0.3"}, on) as web:
        web.pages[f"{A}/doc"] = Reply(200, [("Content-Type", DOCX)], docx("by default"))
        web.run(EPOCH, [f"{A}/doc"])
        assert web.rows("pages", "text")[f"{A}/doc"]["text"] == "by default"


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080010002001011100ffd9")
WEBP = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x1f\0\0\x0f\0\0"


@pytest.mark.parametrize(
    "body,size",
    [
        (png(1, 2), (1, 2)),
        (b"GIF89a\x20\x00\x10\x00", (32, 16)),
        (JPEG, (32, 16)),  # SOF0: 8 bits, height 0010, width 0020
        (WEBP, (32, 16)),  # VP8X: width and height less one
        (b"\xff\xd8" + b"\xff\xe0\x00\x02" * 5000, None),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff", None),
        (b"", None),
    ],
)
def test_the_size_of_an_image(body, size):
    assert image_size(body) == size


def test_forms_of_a_page_are_its_variants(seen):
    query = "SELECT url, variant_url, kind, hreflang FROM variants ORDER BY 1, 3, 2"
    rows = json.loads(call("sql", query, "--data", seen.web.folder, "--json").out)["rows"]
    assert [
        (r["variant_url"], r["kind"], r["hreflang"]) for r in rows if r["url"] == f"{A}/en"
    ] == [
        (f"{A}/amp/en", "amp", ""),
        (f"{A}/de", "hreflang", "de"),
        (f"{A}/m/en", "mobile", ""),
        (f"{A}/en?page=2", "page", ""),
    ]


def test_pages_by_day_and_host_are_json(seen, tmp_path):
    out = tmp_path / "by-host"
    done = call("export", "pages-by-host", "--data", seen.web.folder, "--out", out, "--json")
    counts = json.loads(done.out)
    (day,) = out.iterdir()
    pages = json.loads((day / "a.example.json").read_text("utf-8"))
    assert (counts["files"], counts["pages"]) == (1, len(pages))
    assert {p["host"] for p in pages} == {"a.example"}
    assert f"{A}/plain" in {p["url"] for p in pages}
