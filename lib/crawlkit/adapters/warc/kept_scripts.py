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
from crawlkit.model import Answer
from crawlkit.outcomes import Refused
from crawlkit.rules.http.conditional import validators
from crawlkit.rules.http.fresh_until import fresh_until
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.warc.digests import sha1_digest

_PREFIX = "scripts/"
_KEPT = frozenset(
    "content-type content-encoding access-control-allow-origin cross-origin-resource-policy".split()
)


@dataclass(frozen=True, slots=True)
class KeptScript:
    """Where the body of a script is, and of which request: it may be another URL's, with fields of
    its own. Times are Unix s. headers: of the script's answer, what a browser goes by.
    """

    url: str
    capture_id: str
    copy_url: str
    payload_digest: str
    warc_filename: str
    offset: int
    length: int
    fetched_at: float
    fresh_until: float
    etag: str | None
    last_modified: str | None
    headers: list[tuple[str, str]]


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
            _, body = read(kept.warc_filename, kept.offset, kept.length)
        except (ObjectMissing, Refused, ValueError, TypeError):
            return None
        if kept.url != url or sha1_digest(body) != kept.payload_digest:
            return None
        headers = [(str(name), str(value)) for name, value in kept.headers]
        return kept, Answer(url, status=200, headers=headers, body=body)

    def keep(  # noqa: PLR0913 - where a body is stored
        self,
        answer: Answer,
        digest: str,
        capture_id: str,
        copy_url: str,
        fetched_at: float,
        filename: str,
        offset: int,
        length: int,
    ) -> None:
        """Remember a script whose body is in a record, if it may be stored.

        The record may be another URL's, and need not be in the store yet. Raises OSError.
        """
        until = fresh_until(answer.headers, answer.wall_end)
        if until is not None:
            place = capture_id, copy_url, digest, filename, offset, length, fetched_at
            headers = [(k, v) for k, v in answer.headers if k.lower() in _KEPT]
            self._put(KeptScript(answer.url, *place, until, *validators(answer.headers), headers))

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
