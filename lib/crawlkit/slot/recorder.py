"""What a slot keeps of its work: WARC files first, then the parts that name them.

Role: all methods of `Recorder` run in one thread, the slot's writer, so nothing here is locked. A
capture is in a part only after the file with its record is closed, read back and stored (spool.py);
what is in no part never happened.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from crawlkit.adapters.net.site_logins import SESSION
from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.parts import Record, WarcFile, encode, encode_part, part_key
from crawlkit.adapters.store.spool import Spool
from crawlkit.adapters.warc.record_fields import StoredCopy, record_id
from crawlkit.adapters.warc.writer import Finished, WarcWriter, Written
from crawlkit.config import Config
from crawlkit.model import Answer, Capture, FetchItem, RobotsCopy
from crawlkit.outcomes import Outcome
from crawlkit.rules.http.conditional import validators
from crawlkit.rules.politeness.host_state import HostState
from crawlkit.slot.request_log import RequestLog
from crawlkit.version import __version__

LOG_NAMES: dict[type, str] = {Capture: "capture", RobotsCopy: "robots"}
UNTOUCHED = (Outcome.DEFERRED, Outcome.ROBOTS_CACHED)  # outcomes that change no row of the frontier


class Stored(NamedTuple):
    """A body stored in this slot, to which later equal ones refer, and its record."""

    capture_id: str
    url: str
    date: float  # Unix s
    filename: str
    offset: int
    length: int


class Attempt(NamedTuple):
    """Names an attempt of a slot; `number` is 1 for the first."""

    round_id: str
    slot: int
    number: int


class Recorder:
    """Writes the captures of one attempt of a slot.

    `check` raises LeaseLost if nothing may be written any more. `stored`: bodies of earlier
    attempts by digest. `about`: the round (JSON), for the log record of each file.
    """

    def __init__(  # noqa: PLR0913 - an attempt is named by three of them
        self,
        parts: Objects,
        warcs: Objects,
        folder: Path,
        cfg: Config,
        attempt: Attempt,
        stored: dict[str, Stored],
        check: Callable[[], None],
        about: bytes = b"{}",
    ) -> None:
        self._folder = folder
        self._spool = Spool(
            parts,
            warcs,
            folder,
            check,
            max_bytes=cfg.storage.spool_bytes,
            max_s=cfg.storage.spool_s,
        )
        self._attempt = attempt
        self._log = RequestLog(parts, attempt, lambda key, text: self._spool.ship(key, text, None))
        self._stored, self._about = stored, about
        self._roll_s = cfg.warc.roll_s
        info = {
            "software": f"crawlkit/{__version__}",
            "isPartOf": cfg.crawl.id,
            "http-header-user-agent": cfg.agent.user_agent,
            "robots": "obey",
        }
        self._writer = WarcWriter(
            folder,
            (cfg.crawl.id, *attempt),
            info,
            roll_bytes=cfg.warc.roll_bytes,
            roll_s=cfg.warc.roll_s,
            set_cookie=cfg.warc.set_cookie,
        )
        self._pending: list[Record] = []
        self._pending_since = 0.0
        self._touched: dict[str, HostState] = {}
        self._n_parts = self._seq = 0

    def add(
        self,
        capture: Capture,
        answer: Answer | None = None,
        item: FetchItem | None = None,
        state: HostState | None = None,
        copy: RobotsCopy | None = None,
    ) -> None:
        """Keep one outcome; store an `answer` that has a status as a response or revisit record.

        `item` knows the stored copy, `state` is the host's after the answer, `copy` the robots.txt
        that this answer completes. Raises StoreFull, OSError, Refused (WARC_DAMAGED), LeaseLost.
        """
        self._name(capture)
        if answer is not None and answer.status is not None:
            self._store(capture, answer, item)
        self._keep(capture)
        self._log.add(capture)
        if copy is not None:
            copy.capture_id = capture.capture_id
            self._keep(copy)
        if state is not None:
            self._touched[state.host] = state
        if self._writer.due():
            self.flush()

    def add_render(self, capture: Capture, item: FetchItem, html: bytes) -> None:
        """Keep a rendered document as a conversion record of the row's stored copy.

        Raises as `add`.
        """
        own = _own_copy(item)
        self._name(capture)
        if own is not None:
            now = capture.ended = time.time()  # no start: no request was sent
            written = self._writer.write_conversion(item.url, capture.capture_id, html, own[0], now)
            self._place(capture, written)
            capture.revisit_of = own[1]
        self._keep(capture)
        if self._writer.due():
            self.flush()

    def find_stored(self, digest: str | None) -> Stored | None:
        """The body of this digest, if this slot has stored it."""
        return self._stored.get(digest or "")

    def _name(self, capture: Capture) -> None:
        capture.seq, self._seq = self._seq, self._seq + 1
        capture.capture_id = f"{'-'.join(map(str, self._attempt))}-{capture.seq}"

    def add_all(self, captures: Iterable[Capture]) -> None:
        """Keep outcomes without an answer."""
        for capture in captures:
            self.add(capture)

    def events(self, states: list[HostState]) -> Future[None]:
        """Make host states durable (429, 503, breaker): they are when the future is done."""
        return self._ship(list(states))

    def flush_if_due(self) -> None:
        """Close and hand on what is old enough. Raises what ended the spool."""
        self._spool.check()
        self._log.flush_if_due()
        if self._writer.due() or (
            self._pending and time.monotonic() - self._pending_since >= self._roll_s
        ):
            self.flush()

    def flush(self, states: Iterable[HostState] = ()) -> None:
        """Close the WARC file and hand it on to be stored, with a part of all that is pending."""
        self._touched |= {s.host: s for s in states}
        self._log.flush()
        records: list[Record] = []
        logged = [
            (LOG_NAMES[type(r)], encode(r))
            for r in self._pending
            if not (isinstance(r, Capture) and r.outcome in UNTOUCHED)
        ]
        # the tables are rebuilt from this if only the WARC files are left (capture_log.py)
        if logged:
            self._writer.write_log([("round", self._about), *logged])
        finished = self._writer.close()
        if finished is not None:
            records.append(
                WarcFile(finished.filename, finished.filename, finished.size, finished.records)
            )
        records += self._pending
        records += self._touched.values()
        if records:
            self._ship(records, finished)
        self._pending, self._touched = [], {}

    def drain(self) -> None:
        """Returns when all that was flushed is stored.

        Raises StoreUnavailable, StoreFull, OSError, LeaseLost.
        """
        self._spool.drain()

    def close(self) -> None:
        """Drop what was not flushed or not stored, and the local folder."""
        self._writer.abandon()
        self._spool.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ship(self, records: list[Record], warc: Finished | None = None) -> Future[None]:
        key = part_key(*self._attempt, self._n_parts)
        self._n_parts += 1
        return self._spool.ship(key, encode_part(records), warc)

    def _keep(self, record: Record) -> None:
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending.append(record)

    def _store(self, capture: Capture, answer: Answer, item: FetchItem | None) -> None:
        block = self._writer.block(answer)
        earlier, revisit_of = self._earlier(answer, item, block.payload_digest)
        written = self._writer.write(answer, capture.capture_id, earlier=earlier, block=block)
        self._place(capture, written)
        if written.record_type == "revisit":
            capture.revisit_of = revisit_of
        elif answer.body and not answer.truncated:
            self._stored.setdefault(
                block.payload_digest,
                Stored(
                    capture.capture_id,
                    answer.url,
                    answer.wall_start,
                    written.filename,
                    written.offset,
                    written.length,
                ),
            )

    def _place(self, capture: Capture, written: Written) -> None:
        capture.warc_filename = written.filename
        capture.warc_record_offset = written.offset
        capture.warc_record_length = written.length
        capture.warc_record_id = written.record_id
        capture.record_type = written.record_type
        capture.payload_digest = written.payload_digest

    def _earlier(
        self, answer: Answer, item: FetchItem | None, digest: str
    ) -> tuple[StoredCopy | None, str | None]:
        """The copy that holds this body: the URL's own, else one of this slot."""
        own = None if item is None else _own_copy(item)
        if own is not None and (answer.status == 304 or digest == own[0].payload_digest):
            return own
        known = self._stored.get(digest)
        if known is None or answer.status == 304:
            return None, None
        copy = StoredCopy(known.url, known.date, digest, record_id(known.capture_id))
        return copy, known.capture_id


def _own_copy(item: FetchItem) -> tuple[StoredCopy, str] | None:
    """The stored copy of the URL itself, and its capture_id."""
    capture_id, digest, fetched_at = (
        item.prev_capture_id,
        item.prev_payload_digest,
        item.prev_fetched_at,
    )
    if not capture_id or not digest or fetched_at is None:
        return None
    url = item.prev_copy_url or item.url
    return StoredCopy(url, fetched_at, digest, record_id(capture_id)), capture_id


def describe(capture: Capture, answer: Answer) -> None:
    """Fill the fields of a capture that come from the answer's header and times."""
    capture.status = answer.status
    capture.ip = answer.ip
    capture.truncated = answer.truncated
    capture.started, capture.ended = answer.wall_start, answer.wall_end
    if capture.detail is None:  # what was odd about the answer
        capture.detail = (
            ", ".join(note for note in dict.fromkeys(answer.notes) if note != SESSION) or None
        )
    if answer.status is not None:
        capture.content_type = answer.header_list("content-type")
        capture.cache_control = answer.header_list("cache-control")
        capture.etag, capture.last_modified = validators(answer.headers)
        capture.body_bytes = None if answer.status == 304 else len(answer.body)
