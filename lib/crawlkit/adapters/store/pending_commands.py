"""Operator commands that no round has taken yet: objects `control/pending/ID.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from crawlkit.adapters.store.objects import Objects

PENDING = "control/pending/"


def put_pending(objects: Objects, row: Mapping[str, Any]) -> None:
    """Let a row of `commands` (arguments as JSON text) wait for the next round. Raises OSError."""
    objects.put(f"{PENDING}{row['command_id']}.json", json.dumps(dict(row)).encode())


def read_pending(objects: Objects) -> list[dict[str, Any]]:
    """The commands that wait, oldest first, with their arguments read."""
    rows = [json.loads(objects.get(key)[0]) for key in objects.list(PENDING)]
    return sorted(
        (r | {"arguments": json.loads(r["arguments"])} for r in rows),
        key=lambda r: (r["at"], r["command_id"]),
    )


def delete_pending(objects: Objects, command_id: str) -> None:
    """A round has taken the command. Repeating it changes nothing."""
    objects.delete(f"{PENDING}{command_id}.json")
