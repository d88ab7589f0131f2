"""WET and WAT: text and metadata of stored pages as WARC files.

The form is that of Common Crawl.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from isal import igzip
from warcio.statusandheaders import StatusAndHeaders

from crawlkit.adapters.warc.reader import WarcRecord, iter_records
from crawlkit.adapters.warc.record_fields import warc_date
from crawlkit.exports.files import atomic
from crawlkit.exports.source import Source
from crawlkit.exports.withheld import withheld
from crawlkit.model import header_list
from crawlkit.rules.http.content_coding import decode_body
from crawlkit.rules.http.content_types import kind_of
from crawlkit.rules.page.page import parse_page
from crawlkit.rules.warc.digests import sha1_digest
from crawlkit.rules.warc.stored_http import target_uri
from crawlkit.version import __version__

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:crawlkit:export")
# The WAT path of each kind of link: its place in the markup.
_PATHS = {
    "a": "A@/href",
    "area": "AREA@/href",
    "image": "IMG@/src",
    "frame": "FRAME@/src",
    "iframe": "IFRAME@/src",
}


def export_wet(source: Source, out: Path, round_id: str | None = None) -> dict[str, Any]:
    """One WET file a round below the folder `out`; counts.

    It has a `conversion` record for each page whose text is kept and may be given (withheld.py).
    """
    files, n, left_out = [], 0, withheld(source)
    for name in source.rounds(round_id):
        path = out / f"{source.cfg.crawl.id}-{name}.warc.wet.gz"
        found = {
            r["capture_id"]: r
            for r in source.rows(
                "captures",
                ["capture_id", "started", "ended", "warc_record_id", "url"],
                (ds.field("round_id") == name) & ds.field("warc_record_id").is_valid(),
            )
        }
        with atomic(path) as f:
            f.write(_info(path.name, source))
            for page in source.rows(
                "pages",
                ["capture_id", "text", "language"],
                (ds.field("round_id") == name) & ds.field("text").is_valid(),
            ):
                capture = found.get(page["capture_id"])
                if capture is not None and page["capture_id"] not in left_out:
                    f.write(_conversion(page, capture))
                    n += 1
        files.append(str(path))
    return {"records": n, "files": files}


def export_wat(source: Source, out: Path, round_id: str | None = None) -> dict[str, Any]:
    """One WAT file for each WARC file below the folder `out`; counts.

    It has a `metadata` record (JSON) for each record.
    """
    where = ds.field("warc_filename").is_valid()
    if round_id is not None:
        where &= ds.field("round_id") == source.rounds(round_id)[0]
    files, n = [], 0
    for name in sorted(
        {r["warc_filename"] for r in source.rows("captures", ["warc_filename"], where)}
    ):
        path = out / name.replace(".warc.gz", ".warc.wat.gz")
        with source.warc.open_range(name) as warc, atomic(path) as f:
            f.write(_info(path.name, source))
            for record in iter_records(warc):
                f.write(_metadata(record, name))
                n += 1
        files.append(str(path))
    return {"records": n, "files": files}


def frame_record(fields: Iterable[tuple[str, str]], block: bytes) -> bytes:
    """One WARC 1.0 record as a gzip member (what readers of WET and WAT expect)."""
    named = [
        *fields,
        ("WARC-Block-Digest", sha1_digest(block)),
        ("Content-Length", str(len(block))),
    ]
    return igzip.compress(
        b"".join((StatusAndHeaders("", named, "WARC/1.0").to_bytes(), block, b"\r\n\r\n")),
        2,
        mtime=0,
    )


def envelope(record: WarcRecord, filename: str) -> dict[str, Any]:
    """The WAT envelope of one record."""
    inner: dict[str, Any] = {
        "Format": "WARC",
        "WARC-Header-Metadata": {_name(k): v for k, v in record.headers.items()},
        "Payload-Metadata": {
            "Actual-Content-Type": record.headers.get("content-type", ""),
            "Actual-Content-Length": str(len(record.block)),
        },
    }
    if record.status is not None:
        inner["Payload-Metadata"]["HTTP-Response-Metadata"] = {
            "Response-Message": {"Status": str(record.status), "Version": "HTTP/1.1"},
            "Headers": _join_headers(record.http_headers),
            "Entity-Length": str(len(record.payload)),
            **_html(record),
        }
    return {
        "Container": {
            "Filename": filename,
            "Compressed": True,
            "Offset": str(record.offset),
            "Gzip-Metadata": {"Deflate-Length": str(record.length)},
        },
        "Envelope": inner,
    }


def _html(record: WarcRecord) -> dict[str, Any]:
    content_type = header_list(record.http_headers, "content-type")
    body = decode_body(record.payload, record.http_headers).body
    if record.type != "response" or not body or kind_of(body, content_type) != "html":
        return {}
    page = parse_page(body, record.url, content_type, record.http_headers, "crawlkit")
    meta = page.metadata
    metas = [
        {"name": name, "content": value}
        for name, value in (
            ("description", meta.description),
            ("keywords", meta.keywords),
            ("author", meta.author),
        )
        if value
    ]
    metas += [{"property": name, "content": str(value)} for name, value in meta.og.items()]
    head = {
        "Title": meta.title,
        "Metas": metas,
        "Link": [
            {"path": "LINK@/href", "url": link.url, "rel": link.kind}
            for link in page.links.links
            if link.kind not in _PATHS
        ],
    }
    links = [
        {
            "path": _PATHS[link.kind],
            "url": link.url,
            **({"text": link.anchor} if link.anchor else {}),
        }
        for link in page.links.links
        if link.kind in _PATHS
    ]
    return {"HTML-Metadata": {"Head": {k: v for k, v in head.items() if v}, "Links": links}}


def _metadata(record: WarcRecord, filename: str) -> bytes:
    refers, date = record.headers.get("warc-record-id", ""), record.headers.get("warc-date", "")
    fields = [
        ("WARC-Type", "metadata"),
        ("WARC-Target-URI", record.url or filename),
        ("WARC-Date", date),
        ("WARC-Record-ID", _id(f"wat:{refers}")),
        ("WARC-Refers-To", refers),
        ("Content-Type", "application/json"),
    ]
    return frame_record(
        ((k, v) for k, v in fields if v), json.dumps(envelope(record, filename)).encode()
    )


def _conversion(page: dict[str, Any], capture: dict[str, Any]) -> bytes:
    fields = [
        ("WARC-Type", "conversion"),
        ("WARC-Target-URI", target_uri(capture["url"])),
        ("WARC-Date", (capture["started"] or capture["ended"]).strftime("%Y-%m-%dT%H:%M:%SZ")),
        ("WARC-Record-ID", _id(f"wet:{page['capture_id']}")),
        ("WARC-Refers-To", capture["warc_record_id"]),
    ]
    if page["language"]:
        fields.append(("WARC-Identified-Content-Language", page["language"]))
    return frame_record(
        [*fields, ("Content-Type", "text/plain")], page["text"].encode("utf-8", "replace")
    )


def _info(filename: str, source: Source) -> bytes:
    """The date is fixed, so that the same crawl gives the same file."""
    fields = [
        ("WARC-Type", "warcinfo"),
        ("WARC-Date", warc_date(0)),
        ("WARC-Filename", filename),
        ("WARC-Record-ID", _id(f"info:{filename}")),
        ("Content-Type", "application/warc-fields"),
    ]
    return frame_record(
        fields,
        f"software: crawlkit/{__version__}\r\nformat: WARC File Format 1.0\r\nisPartOf:"
        f" {source.cfg.crawl.id}\r\n".encode(),
    )


def _id(name: str) -> str:
    return f"<urn:uuid:{uuid.uuid5(_NAMESPACE, name)}>"


def _join_headers(headers: list[tuple[str, str]]) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in headers:
        out[name] = f"{out[name]}, {value}" if name in out else value
    return out


def _name(low: str) -> str:
    """The usual spelling of a WARC field's name."""
    return "-".join(
        {"warc": "WARC", "id": "ID", "uri": "URI", "ip": "IP"}.get(piece, piece.capitalize())
        for piece in low.split("-")
    )


def texts(source: Source, round_id: str | None = None) -> Iterator[dict[str, Any]]:
    """(capture_id, url, title, text) of the pages of a round or of all.

    text is None if it is not kept.
    """
    yield from source.rows(
        "pages",
        ["capture_id", "url", "title", "text"],
        None if round_id is None else ds.field("round_id") == round_id,
    )
