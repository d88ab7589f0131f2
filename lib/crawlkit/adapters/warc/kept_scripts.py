"""Scripts of pages that need a browser, found again by their URL: each body is stored once, as a
record of the WARC store, and an object below `scripts/` says where.

What it says is proved by the digest of the record that is there: a file that was moved, rewritten
or never stored is as good as none, and the script is requested again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace

from crawlkit.adapters.store.objects import ObjectMissing, Objects
from crawlkit.adapters.warc.record_store import RecordReader
from crawlkit.model import Answer, Capture
from crawlkit.outcomes import Refused
from crawlkit.rules.http.conditional import validators
from crawlkit.rules.http.freshness import fresh_until
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.warc.digests import sha1_digest

_PREFIX = "scripts/"


@dataclass(frozen=True, slots=True)
class KeptScript:
    """Where the body of a script is. Times are Unix s. etag, last_modified: its validators."""

    url: str
    capture_id: str
    payload_digest: str
    warc_filename: str
    offset: int
    length: int
    fetched_at: float
    fresh_until: float
    etag: str | None
    last_modified: str | None


class KeptScripts:
    """The index over the stores of a crawl. Its methods block."""

    def __init__(self, objects: Objects, warcs: Objects) -> None:
        self._objects, self._warcs = objects, warcs

    def find(self, url: str) -> tuple[KeptScript, Answer] | None:
        """A script that is stored, with the answer as it came; None: there is none. Raises
        OSError.
        """
        try:
            kept = KeptScript(**json.loads(self._objects.get(_key(url))[0]))
            read = RecordReader(self._warcs)
            headers, body = read(kept.warc_filename, kept.offset, kept.length)
        except (ObjectMissing, Refused, ValueError, TypeError):
            return None
        if kept.url != url or sha1_digest(body) != kept.payload_digest:
            return None
        return kept, Answer(url, status=200, headers=headers, body=body)

    def keep(self, capture: Capture, answer: Answer) -> None:
        """Remember a script that was stored with a record of its own, if it may be stored.

        The record need not be in the store yet. Raises OSError.
        """
        until = fresh_until(answer.headers, answer.wall_end)
        if until is None or answer.status != 200 or answer.truncated:
            return
        if capture.record_type != "response" or capture.payload_digest is None:
            return
        place = capture.warc_filename, capture.warc_record_offset, capture.warc_record_length
        kept = KeptScript(
            answer.url,
            capture.capture_id,
            capture.payload_digest,
            str(place[0]),
            place[1] or 0,
            place[2] or 0,
            answer.wall_start,
            until,
            *validators(answer.headers),
        )
        self._put(kept)

    def confirm(self, kept: KeptScript, answer: Answer) -> None:
        """An answer showed that a kept script has not changed: it is fresh again. Raises
        OSError.
        """
        until = fresh_until(answer.headers, answer.wall_end)
        self._put(replace(kept, fresh_until=answer.wall_end if until is None else until))

    def _put(self, kept: KeptScript) -> None:
        self._objects.put(_key(kept.url), json.dumps(asdict(kept)).encode())


def forget_scripts(objects: Objects, hosts: list[str]) -> None:
    """Forget all scripts of hosts. Raises OSError."""
    for host in hosts:
        for key in objects.list(f"{_folder(host)}/"):
            with contextlib.suppress(ObjectMissing):
                objects.delete(key)


def _folder(host: str) -> str:
    return _PREFIX + re.sub(r"[^a-z0-9.-]", "_", host)


def _key(url: str) -> str:
    return f"{_folder(host_of(url))}/{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"
