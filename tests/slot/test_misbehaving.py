"""A whole slot against misbehaving servers on real sockets: for each case the outcome row and the
WARC record, read by warcio.
"""

from __future__ import annotations

import base64
import hashlib
import io as stdio
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from crawlkit.adapters.store.parts import WarcFile
from crawlkit.adapters.warc.file_check import check
from crawlkit.config import Config
from crawlkit.model import Capture
from crawlkit.slot.inputs import SlotIO
from crawlkit.slot.run import run_slot
from warcio.archiveiterator import ArchiveIterator

from tests.servers.raw_server import RawServer, raw_server
from tests.shared_data import shared_rows
from tests.slot.misbehaving import DEADLINE_S, LIMIT, SERVED, Served
from tests.slot.slotweb import kept, outcomes, plan, slot_io

ADDRESS = "127.0.77.2"  # let through; other loopback addresses stay refused
pytestmark = pytest.mark.waits
NO_ROBOTS = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def serve(cases: Sequence[Served]) -> Callable[[socket.socket, bytes, int], bool]:
    """Host c{n}.test answers as case n does."""

    def answer(connection: socket.socket, request: bytes, n: int) -> bool:
        if request.startswith(b"GET /robots.txt "):
            connection.sendall(NO_ROBOTS)
            return False
        case = cases[int(re.search(rb"\r\nHost: c([0-9]+)\.test", request)[1])]
        step = max(1, len(case.raw) // case.pieces)
        for at in range(0, len(case.raw), step):
            connection.sendall(case.raw[at : at + step])
            if case.pieces > 1:
                time.sleep(0.002)
        if case.ending == "reset":
            time.sleep(0.2)  # so that what was sent is read first
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        ends = time.monotonic() + DEADLINE_S + 2
        while case.ending in ("stall", "drip") and time.monotonic() < ends:
            if case.ending == "drip":
                connection.sendall(b"a")
            time.sleep(0.1)
        return False

    return answer


def crawl(
    cases: Sequence[Served], server: RawServer, folder: Path, **fetch: object
) -> tuple[SlotIO, dict[str, Capture]]:
    cfg = Config.model_validate(
        {
            "fetch": {
                "connect_to": {"*.test": f"{ADDRESS}:{server.port}"},
                "allow_private": [f"{ADDRESS}/32"],
                "timeout_s": DEADLINE_S,
                "connect_timeout_s": 1.0,
                "max_body_bytes": LIMIT,
                **fetch,
            },
            "politeness": {"delay_s": 0.0, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
            "lease": {"ttl_s": 20.0, "renew_s": 1.0, "margin_s": 0.5},
        }
    )
    io = slot_io(folder)
    run_slot(plan([f"http://c{n}.test/" for n in range(len(cases))]), cfg, io)
    return io, outcomes(io)


def record_of(io: SlotIO, c: Capture):
    raw = io.warcs.open_range(c.warc_filename, c.warc_record_offset, c.warc_record_length).read()
    return next(iter(ArchiveIterator(stdio.BytesIO(raw), no_record_parse=True)))


def faults(case: Served, c: Capture, io: SlotIO, host: str) -> list[str]:
    """What is not as the case says: the row, then the record."""
    found = {
        "outcome": c.outcome,
        "reason": c.reason,
        "status": c.status,
        "truncated": c.truncated,
        "redirect_to": c.redirect_to,
    }
    want = {
        "outcome": case.outcome,
        "reason": case.reason,
        "status": case.status,
        "truncated": case.truncated,
        "redirect_to": case.target and case.target.replace("{host}", host),
    }
    wrong = [f"{k} is {found[k]!r}, not {want[k]!r}" for k in want if found[k] != want[k]]
    if case.note and case.note != "*" and case.note not in (c.detail or ""):
        wrong.append(f"detail is {c.detail!r}, not {case.note}")
    if case.note is None and case.outcome == "fetched" and c.detail:
        wrong.append(f"detail {c.detail!r} of an answer without fault")
    if (c.warc_filename is not None) != (case.status is not None):
        return [*wrong, f"a record: {c.warc_filename is not None}"]
    if case.status is None:
        return wrong
    record = record_of(io, c)
    headers, block = record.rec_headers, record.raw_stream.read()
    digest = "sha1:" + base64.b32encode(hashlib.sha1(case.body).digest()).decode()
    checks = {
        "WARC-Type": ("response",),
        "WARC-Target-URI": (f"http://{host}/",),
        "WARC-Truncated": (case.truncated,),
        "WARC-IP-Address": (ADDRESS,),
        "WARC-Payload-Digest": (digest,),
        "WARC-Record-ID": (c.warc_record_id,),
        "Content-Type": ("application/http; msgtype=response",),
    }
    if c.record_type == "revisit":  # an equal body came before
        checks |= {
            "WARC-Type": ("revisit",),
            "WARC-Profile": ("http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",),
        }
    wrong += [
        f"{k} is {headers.get_header(k)!r}"
        for k, allowed in checks.items()
        if headers.get_header(k) not in allowed
    ]
    body = b"" if c.record_type == "revisit" else case.body
    if not block.endswith(body) or not re.match(rb"HTTP/\d(\.\d)?[ \t]+%d" % case.status, block):
        wrong.append(f"block {block[:200]!r}")
    head = block[: len(block) - len(body)]
    if re.search(rb"(?im)^transfer-encoding[ \t]*:", head):
        wrong.append("Transfer-Encoding stands before a payload without it")
    return wrong + [f"{secret!r} is stored" for secret in case.absent if secret in block]


def test_every_case(tmp_path):
    assert len(SERVED) >= 150 and len({(c.name, c.section) for c in SERVED}) == len(SERVED)
    with raw_server(serve(SERVED), ADDRESS) as server:
        io, told = crawl(SERVED, server, tmp_path)
    wrong = {}
    for n, case in enumerate(SERVED):
        if found := faults(case, told[f"http://c{n}.test/"], io, f"c{n}.test"):
            wrong[f"{case.section} {case.name}"] = found
    assert wrong == {}, json.dumps(wrong, indent=1)
    files = {w.filename for w in kept(io, WarcFile)}
    assert all(check(io.warcs.local_path(name))["ok"] for name in files)


def test_the_llhttp_suite(tmp_path):
    """All rows of the suite by real sockets: `ok` rows give status and body, `error` rows a
    recorded error or a flagged answer.
    """
    rows = shared_rows("suites/llhttp/responses.jsonl")
    cases = [Served(row["id"], "llhttp", base64.b64decode(row["raw_response_b64"])) for row in rows]
    with raw_server(serve(cases), ADDRESS) as server:
        io, told = crawl(cases, server, tmp_path)
    wrong = {}
    for n, row in enumerate(rows):
        c = told[f"http://c{n}.test/"]
        if row["verdict"] == "error":
            good = c.outcome == "failed" or bool(c.detail)
        elif row["status"] == 101:  # well formed, but we asked for no upgrade
            good = c.reason == "http_malformed"
        else:
            same = c.record_type == "revisit" or record_of(io, c).raw_stream.read().endswith(
                base64.b64decode(row["body_b64"])
            )
            good = c.status == row["status"] and (
                same or row["id"] in ("ll16", "ll36")
            )  # two rows whose body is not what their bytes say
        if not good:
            wrong[row["id"], row["about"]] = (
                row["verdict"],
                row.get("status"),
                c.outcome,
                c.reason,
                c.status,
                c.detail,
            )
    assert wrong == {}
