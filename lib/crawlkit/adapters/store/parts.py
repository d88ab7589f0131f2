"""Part manifests: what a slot has done, made durable piece by piece.

`parts/{round_id}/{slot:05d}/{attempt:03d}/part-{n:05d}.json` holds JSON lines `{"rec": KIND, ...}`,
written once, after the WARC file that it names is closed, verified and stored. KIND: capture,
robots, host, warc, note. Bytes are base64.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from crawlkit.adapters.store.objects import Objects
from crawlkit.model import Capture, RobotsCopy
from crawlkit.rules.politeness.host_state import HostState

_KEY = re.compile(r"parts/([^/]+)/([0-9]{5,})/([0-9]{3,})/part-([0-9]{5,})\.json")
_BYTES = {"url_key", "body"}  # fields of Capture and RobotsCopy that hold bytes


class PartDamaged(ValueError):
    """A part cannot be read; the message names object and line."""

    exit_code = 2
    advice = ": the round's state is damaged: restore that file from a copy"


@dataclass(frozen=True, slots=True)
class WarcFile:
    """A stored WARC file."""

    filename: str  # as in captures.warc_filename
    key: str  # in the WARC store
    size: int  # bytes
    records: int


@dataclass(frozen=True, slots=True)
class Note:
    """Anything else worth keeping: `kind` names it, `data` is JSON."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


Record = Capture | RobotsCopy | HostState | WarcFile | Note


@dataclass(frozen=True, slots=True)
class Part:
    """One manifest."""

    key: str
    slot: int
    attempt: int
    n: int
    records: list[Record]


def slot_prefix(round_id: str, slot: int) -> str:
    """The prefix of the keys of a slot's parts."""
    return f"parts/{round_id}/{slot:05d}/"


def part_key(round_id: str, slot: int, attempt: int, n: int) -> str:
    """The key of the n-th part of an attempt."""
    return f"{slot_prefix(round_id, slot)}{attempt:03d}/part-{n:05d}.json"


def encode_part(records: Iterable[Record]) -> bytes:
    """The content of a part."""
    return b"".join(encode(r) for r in records)


def write_part(objects: Objects, key: str, data: bytes) -> None:
    """Store one part; again is no error.

    Raises FileExistsError if another wrote it (two writers of one attempt), StoreFull, OSError.
    """
    if not objects.put_if_absent(key, data) and objects.get(key)[0] != data:
        raise FileExistsError(f"{key} exists: two writers took the same attempt")


def read_slot(objects: Objects, round_id: str, slot: int) -> list[Part]:
    """All parts of a slot, by attempt and number. Raises PartDamaged."""
    return [read_part(objects, key) for key in part_keys(objects, slot_prefix(round_id, slot))]


def part_keys(objects: Objects, prefix: str) -> list[str]:
    """Keys of the parts below a prefix, in reading order: the list that a commit pins."""
    found = [(m, key) for key in objects.list(prefix) if (m := _KEY.fullmatch(key))]
    return [key for _, key in sorted(found, key=lambda p: tuple(int(g) for g in p[0].groups()[1:]))]


def part_number(key: str) -> int:
    """The n of a part's key."""
    m = _KEY.fullmatch(key)
    return int(m[4]) if m else -1


def read_part(objects: Objects, key: str) -> Part:
    """One part. Raises PartDamaged, ObjectMissing."""
    m = _KEY.fullmatch(key)
    if m is None:
        raise ValueError(f"not the key of a part: {key!r}")
    records = []
    for number, line in enumerate(objects.get(key)[0].splitlines(), 1):
        try:
            records.append(decode(line))
        except ValueError as e:
            raise PartDamaged(f"{key}:{number}: {e}") from None
    return Part(key, int(m[2]), int(m[3]), int(m[4]), records)


def encode(record: Record) -> bytes:
    """One line. Fields without a value are left out."""
    if isinstance(record, HostState):
        row = {"rec": "host", **json.loads(record.to_json())}
    else:
        row = {"rec": _NAMES[type(record)]}
        for f in dataclasses.fields(record):
            value = getattr(record, f.name)
            if isinstance(value, bytes):
                value = base64.b64encode(value).decode("ascii")
            if value is not None:
                row[f.name] = value
    return json.dumps(row, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Record:
    """Inverse of encode; fields that this version does not know are left out. Raises ValueError."""
    try:
        row = json.loads(line)
        rec = row.pop("rec")
        if rec == "host":
            return HostState.from_json(json.dumps(row))
        cls = _CLASSES[rec]
        known = {}
        for f in dataclasses.fields(cls):
            if f.name in row:
                known[f.name] = (
                    base64.b64decode(row[f.name], validate=True)
                    if f.name in _BYTES
                    else row[f.name]
                )
            elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
                known[f.name] = None
        return cls(**known)
    except (KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as e:
        raise ValueError(f"not a record: {e!r:.200}") from None


_CLASSES: dict[str, type] = {
    "capture": Capture,
    "robots": RobotsCopy,
    "warc": WarcFile,
    "note": Note,
}
_NAMES = {cls: name for name, cls in _CLASSES.items()}
