"""Small JSON objects beside the tables that several processes change, by compare-and-swap."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from crawlkit.adapters.store.objects import ObjectMissing, Objects

MAX_TRIES = 100


def read_object(objects: Objects, key: str) -> dict[str, Any] | None:
    """The object of a key; None: there is none. Raises OSError."""
    try:
        row: dict[str, Any] = json.loads(objects.get(key)[0])
    except ObjectMissing:
        return None
    return row


def change_object(
    objects: Objects, key: str, change: Callable[[dict[str, Any] | None], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Change an object; as it is then.

    `change` gets the row (None: there is none) and gives the new one (None: leave it as it is); it
    is called again if another writer was quicker. Raises what it raises, OSError.
    """
    for _ in range(MAX_TRIES):
        try:
            raw, etag = objects.get(key)
        except ObjectMissing:
            raw, etag = b"null", None
        row = json.loads(raw)
        new = change(row)
        if new is None:
            return row
        data = json.dumps(new, sort_keys=True).encode()
        if data == raw or objects.compare_and_swap(key, data, etag) is not None:
            return new
    raise OSError(f"{key} changes all the time: nothing was changed")
