"""Records of other tools' WARC files, as captures: what `crawlkit import warc` takes and refuses.

A record is taken with its bytes as they are. What its fields claim is believed only as far as its
bytes show it: a digest that does not match is damage, and the payload digest is always computed.
"""

from __future__ import annotations

import base64
import calendar
import io
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from crawlkit.adapters.warc.file_check import check
from crawlkit.adapters.warc.reader import WarcRecord, damaged, iter_records
from crawlkit.config import Config
from crawlkit.model import Answer, Capture, RobotsCopy, header_list
from crawlkit.outcomes import Outcome, Reason, Refused
from crawlkit.rules.frontier.fetch_outcome import judge
from crawlkit.rules.http.conditional import validators
from crawlkit.rules.http.content_coding import decode_body
from crawlkit.rules.url.canonical import canonicalize, host_of, origin_of, url_key
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, check_seed
from crawlkit.rules.warc.cdxj_lines import timestamp_of
from crawlkit.rules.warc.digests import sha1_digest
from crawlkit.rules.warc.stored_http import target_uri

TAKEN = ("response", "revisit", "resource")
DAY_S = 86_400.0
MAX_URI_CHARS = 2000  # of a refused record, as it is told
MAX_ID_CHARS = 1000
MAX_WORD_CHARS = 40
_SHA1 = re.compile(r"sha-?1:(?:([0-9A-Fa-f]{40})|([A-Za-z2-7]{32}))\Z", re.IGNORECASE)
_FRACTION = re.compile(r"\.([0-9]{1,9})")


class Source(NamedTuple):
    """The place of a record in the file that is imported."""

    path: Path
    offset: int
    length: int


class Original(NamedTuple):
    """A stored response that revisits may refer to."""

    capture_id: str
    record_id: str
    url: str  # as it was sent
    date: int  # Unix s
    payload_digest: str
    status: int | None


class Reference(NamedTuple):
    """What a revisit says of its original; an empty text: nothing."""

    record_id: str
    url: str
    date: int | None
    payload_digest: str  # "sha1:BASE32"


@dataclass(slots=True)
class Found:
    """A record that is taken. refers: of a revisit. robots: the robots.txt in it."""

    capture: Capture
    source: Source
    refers: Reference | None = None
    robots: RobotsCopy | None = None


class Scan:
    """Reads files; `found` and `refused` (rows of `rejects`) grow with each.

    Memory is some 2 KB a record.
    """

    def __init__(
        self, cfg: Config, round_id: str, scope: Scope, now: float, priority_class: int
    ) -> None:
        """scope: of what is taken. now: real time, Unix s; no record is from after it."""
        self._cfg, self._round_id, self._scope, self._now = cfg, round_id, scope, now
        self._class = priority_class
        self._policy = UrlPolicy.of(cfg.urls)
        self._allow = tuple(ip_network(n) for n in cfg.fetch.allow_private)
        self.records = 0
        self.found: list[Found] = []
        self.refused: list[dict[str, Any]] = []

    def read_file(self, path: Path) -> None:
        """Take a file's records. Raises Refused: it has none that can be read (an ARC file)."""
        others: Counter[str] = Counter()
        damages: list[Refused] = []
        before = self.records
        with path.open("rb") as file, path.open("rb") as again:
            for record in iter_records(file, on_damage=damages.append):
                self.records += 1
                is_part = "warc-segment-number" in record.headers
                if record.type in TAKEN and not is_part:
                    self._take(path, again, record)
                else:
                    others["segmented " * is_part + (record.type[:40] or "nameless")] += 1
        if damages and self.records == before:
            raise Refused(damages[0].reason, f"{path}: {damages[0].detail}")
        for kind, n in sorted(others.items()):
            self.refuse("", Refused(Reason.RECORD_KIND, f"{path}: {n} {kind} records"), n)
        for e in damages:
            self.refuse("", Refused(e.reason, f"{path}: {e.detail}"))

    def refuse(self, item: str, e: Refused, records: int = 1) -> None:
        """A row of `rejects`; `records` is how many it stands for."""
        self.refused.append(
            {
                "n": len(self.refused),
                "item": target_uri(item)[:MAX_URI_CHARS],
                "reason": str(e.reason),
                "detail": e.detail,
                "records": records,
            }
        )

    def _take(self, path: Path, file: BinaryIO, record: WarcRecord) -> None:
        try:
            file.seek(record.offset)
            _check_bytes(file.read(record.length), record)
            found = self._read(path, record)
        except Refused as e:
            where = f"{path}: at {record.offset}"
            self.refuse(record.url, Refused(e.reason, f"{where}: {e.detail}"))
        else:
            self.found.append(found)

    def _read(self, path: Path, record: WarcRecord) -> Found:
        """Raises Refused."""
        url = canonicalize(record.url, None, self._policy)
        check_seed(url, 0, self._scope)
        started = date_of(record)
        if not 0 <= started <= self._now + DAY_S:
            raise Refused(Reason.WARC_DAMAGED, "its WARC-Date is no time of a fetch")
        capture = self._describe(url, started, record)
        self._judge(capture, record)
        at = Source(path, record.offset, record.length)
        if record.type == "revisit":
            return Found(capture, at, _reference_of(record))
        return Found(capture, at, None, self._robots_copy(capture, record))

    def _describe(self, url: str, started: float, record: WarcRecord) -> Capture:
        seq = len(self.found)
        sent = target_uri(record.url)
        is_robots = url == f"{origin_of(url)}/robots.txt"
        return Capture(
            f"{self._round_id}-0-1-{seq}",
            self._round_id,
            url_key(url),
            url,
            "robots" if is_robots else "page",
            host_of(url),
            slot=0,
            attempt=1,
            seq=seq,
            outcome=str(Outcome.FETCHED),
            started=started,
            ended=started,
            ip=_address(record.headers.get("warc-ip-address", "")),
            truncated=record.headers.get("warc-truncated", "")[:MAX_WORD_CHARS] or None,
            payload_digest=_own_digest(record),
            warc_record_id=record.headers["warc-record-id"],
            record_type=record.type,
            planned_depth=None if is_robots else 0,
            planned_redirects=None if is_robots else 0,
            planned_class=None if is_robots else self._class,
            sent_url=None if sent == url else sent,
        )

    def _judge(self, capture: Capture, record: WarcRecord) -> None:
        """Status, outcome and what the header says. Raises Refused (HTTP_MALFORMED)."""
        headers = record.http_headers
        if record.type == "resource":
            capture.content_type = record.headers.get("content-type")
            capture.body_bytes = len(record.payload)
            return
        is_unmodified = "server-not-modified" in record.headers.get("warc-profile", "")
        if record.status is None:
            if record.type != "revisit":
                raise Refused(Reason.HTTP_MALFORMED, "no status line")
            if is_unmodified:
                capture.status, capture.outcome = 304, str(Outcome.NOT_MODIFIED)
            return
        answer = Answer(capture.url, record.status, headers=headers)
        conditional = record.type == "revisit" and is_unmodified
        judged = judge(capture.url, answer, conditional, self._policy, self._allow)
        capture.status = record.status
        capture.outcome, capture.reason = str(judged.outcome), judged.reason and str(judged.reason)
        capture.detail, capture.redirect_to = judged.detail, judged.redirect_to
        capture.redirect_sent_url = judged.redirect_sent_url
        capture.content_type = header_list(headers, "content-type")
        capture.cache_control = header_list(headers, "cache-control")
        capture.etag, capture.last_modified = validators(headers)
        if record.type == "response" and record.status != 304:
            capture.body_bytes = len(record.payload)

    def _robots_copy(self, capture: Capture, record: WarcRecord) -> RobotsCopy | None:
        """The robots.txt as others read it. It is past its time: we ask again before we fetch."""
        if capture.kind != "robots" or capture.outcome != Outcome.FETCHED:
            return None
        most, at = self._cfg.robots.max_bytes, capture.started or 0.0
        body = decode_body(record.payload, record.http_headers, most).body
        return RobotsCopy(
            origin_of(capture.url),
            capture.host,
            fetched_at=at,
            status=capture.status or 200,
            error=None,
            final_url=capture.url,
            body=body[:most],
            expires_at=at,
            capture_id=capture.capture_id,
        )


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None


def _check_bytes(raw: bytes, record: WarcRecord) -> None:
    """Raises Refused (WARC_DAMAGED): a mandatory field is missing, or a digest does not match."""
    verdict = check(io.BytesIO(raw))
    if not verdict["ok"]:
        fault = re.sub(r"^at \d+: ", "", verdict["error"] or "a digest does not match its bytes")
        raise Refused(Reason.WARC_DAMAGED, fault)
    if len(record.headers["warc-record-id"]) > MAX_ID_CHARS:
        raise Refused(Reason.WARC_DAMAGED, "its WARC-Record-ID is too long")


def date_of(record: WarcRecord) -> float:
    """WARC-Date as Unix s. Raises Refused (WARC_DAMAGED)."""
    text = record.headers["warc-date"]
    try:
        return _seconds(text)
    except ValueError:
        raise damaged(record.offset, f"WARC-Date {text[:40]!r}") from None


def _seconds(date: str) -> float:
    whole = calendar.timegm(time.strptime(timestamp_of(date), "%Y%m%d%H%M%S"))
    fraction = _FRACTION.search(date[:40])
    return whole + (float(f"0.{fraction[1]}") if fraction else 0.0)


def _own_digest(record: WarcRecord) -> str | None:
    """The payload's digest; a revisit has that of its original, as it names it."""
    if record.type != "revisit":
        return sha1_digest(record.payload)
    return as_sha1(record.headers.get("warc-payload-digest", "")) or None


def as_sha1(text: str) -> str:
    """A digest field as "sha1:BASE32"; empty for another algorithm."""
    m = _SHA1.match(text.strip())
    if m is None:
        return ""
    return "sha1:" + (base64.b32encode(bytes.fromhex(m[1])).decode() if m[1] else m[2].upper())


def _reference_of(record: WarcRecord) -> Reference:
    h = record.headers
    try:
        date = int(_seconds(h["warc-refers-to-date"]))
    except (KeyError, ValueError):
        date = None
    url = target_uri(h.get("warc-refers-to-target-uri", "").strip("<>"))
    digest = as_sha1(h.get("warc-payload-digest", ""))
    return Reference(h.get("warc-refers-to", ""), url, date, digest)


class Originals:
    """The responses that revisits may refer to, by name, by place and time, and by payload."""

    def __init__(self, originals: Iterable[Original]) -> None:
        """originals: of equals the first counts."""
        self._named: dict[str, Original] = {}
        self._placed: dict[tuple[str, int], Original] = {}
        self._equal: dict[str, Original] = {}
        for o in originals:
            self._named.setdefault(o.record_id, o)
            self._placed.setdefault((o.url, o.date), o)
            self._equal.setdefault(o.payload_digest, o)

    def find(self, refers: Reference) -> Original:
        """Raises Refused (REVISIT_UNRESOLVED)."""
        named = self._named.get(refers.record_id)
        if named is None and refers.date is not None:
            named = self._placed.get((refers.url, refers.date))
        if named is None:
            named = self._equal.get(refers.payload_digest)
        if named is None:
            raise Refused(Reason.REVISIT_UNRESOLVED, refers.record_id or refers.url)
        if refers.payload_digest not in ("", named.payload_digest):
            raise Refused(Reason.REVISIT_UNRESOLVED, "its original has another payload")
        return named


def original_of(capture: Capture) -> Original:
    """A response among the captures of an import as an original."""
    return Original(
        capture.capture_id,
        capture.warc_record_id or "",
        capture.sent_url or capture.url,
        int(capture.started or 0),
        capture.payload_digest or "",
        capture.status,
    )
