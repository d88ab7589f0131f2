"""Items parsed in forked children, so that a page cannot end the stage.

A child parses batch after batch, each with a time limit. A batch in which it dies is parsed again
item by item in children of their own; the item that kills is a reject (parse_crash or
parse_timeout).
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO

import pyarrow as pa

from crawlkit.outcomes import Reason
from crawlkit.parsing.batches import to_batch
from crawlkit.parsing.capture import ReadRecord, parse_item
from crawlkit.parsing.discovery import ParsedRow, ParseRules, Row, add_reject, new_result
from crawlkit.parsing.schemas import ITEM_COLUMNS


def warm_up(rules: ParseRules) -> None:
    """Loads what a first page loads (language model, public suffixes, compiled scope), so that no
    child has to: 0.8 s each.
    """
    row = dict.fromkeys(c.split(" ", 1)[0] for c in ITEM_COLUMNS) | {
        "capture_id": "",
        "kind": "page",
        "url": "http://page.example/",
        "outcome": "fetched",
        "content_type": "text/html",
        "depth": 0,
        "redirects": 0,
        "quality": 0.5,
    }
    parse_item(row, lambda *_: ([], _OWN_PAGE), rules)


_OWN_PAGE = (
    b"<!doctype html><title>A page</title><p>Words enough for the language of a page to be told"
    b' from them.</p><a href="/next">next</a>'
)


def parse_isolated(
    groups: Sequence[pa.RecordBatch], read: ReadRecord, rules: ParseRules, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Batches of ITEM_COLUMNS parsed in a child, one result each; the one in which it dies row by
    row, the others in another child.
    """
    while groups:
        done, why = 0, Reason.PARSE_CRASH
        for batch, reason in _in_child(groups, read, rules, schema):
            why = reason
            if batch is not None:
                done += 1
                yield batch
        if done == len(groups):
            return
        bad = groups[done]
        if len(bad) == 1:
            yield to_batch([_reject_crash(bad.to_pylist()[0], why)], schema)
        else:
            yield from parse_isolated(
                [bad.slice(n, 1) for n in range(len(bad))], read, rules, schema
            )
        groups = groups[done + 1 :]


def _reject_crash(item: Row, reason: Reason) -> ParsedRow:
    """The row of PARSED_SCHEMA for an item that killed its parser."""
    out = new_result(item["capture_id"])
    add_reject(out, item["url"], reason, f"{item['file']} at {item['offset']}")
    return out


def _in_child(
    groups: Sequence[pa.RecordBatch], read: ReadRecord, rules: ParseRules, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch | None, Reason]]:
    """Each group's result as it comes; then None and why there are no more, if the child did not
    end well.
    """
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(r)
            # else each collection writes to all the memory that is shared with the parent
            gc.freeze()
            gc.set_threshold(GC_THRESHOLD)
            with os.fdopen(w, "wb") as f:
                for out in parse_groups(groups, read, rules, schema):
                    f.write(len(out).to_bytes(8, "little"))
                    f.write(out)
                    f.flush()
            status = 0
        finally:
            os._exit(status)
    os.close(w)
    reason = Reason.PARSE_CRASH
    try:
        with os.fdopen(r, "rb", buffering=0) as f:
            for rows in groups:
                deadline = time.monotonic() + rules.cfg.parse.page_timeout_s * (1 + len(rows) / 8)
                size = _read(f, 8, deadline)
                result = size and _read(f, int.from_bytes(size, "little"), deadline)
                if not result:
                    if time.monotonic() >= deadline:
                        reason = Reason.PARSE_TIMEOUT
                    break
                yield pa.ipc.read_record_batch(pa.py_buffer(result), schema), reason
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # has given all, has failed, or the caller wants no more
        os.waitpid(pid, 0)
    yield None, reason


def parse_groups(
    groups: Iterable[pa.RecordBatch], read: ReadRecord, rules: ParseRules, schema: pa.Schema
) -> Iterator[pa.Buffer]:
    """What the child makes of each group: a batch of `schema`, serialised."""
    known: Known = {}
    for group in groups:
        rows = [drop_known(parse_item(row, read, rules), known) for row in group.to_pylist()]
        yield to_batch(rows, schema).serialize()


def _read(f: FileIO, size: int, deadline: float) -> bytearray | None:
    """Exactly `size` bytes of a pipe; None if it ends or the deadline passes before."""
    data, done = bytearray(size), 0
    while done < size:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([f], [], [], left)[0]:
            return None
        got = f.readinto(memoryview(data)[done:])
        if not got:
            return None
        done += got
    return data


Known = dict[
    tuple[bytes, str, float | None], tuple[int, int, bytes]
]  # (url_key, fetch_kind, due_at) -> (depth, redirects, parent_key) of the best found row
MAX_KNOWN = 200_000
GC_THRESHOLD = 20_000  # objects: a page makes thousands, and hardly a cycle


def drop_known(row: ParsedRow, known: Known) -> ParsedRow:
    """A row of PARSED_SCHEMA without the found rows that `keep_found` would drop for one
    reported before: the pages of a site link to the same URLs.
    """
    if len(known) > MAX_KNOWN:
        known.clear()
    kept = []
    for f in row["found"]:
        key = f.url_key, f.fetch_kind, f.due_at
        rank = f.depth, f.redirects, f.parent_key or b""
        if key not in known or rank < known[key]:
            known[key] = rank
            kept.append(f)
    row["found"] = kept
    return row
