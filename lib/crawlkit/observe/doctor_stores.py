"""Checks of `crawlkit doctor`: what the object stores do with conditional puts."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config import S3, Config, ConfigError
from crawlkit.crawl.state import Crawl, Place
from crawlkit.observe.finding import Finding

_PART_BYTES = 5 << 20  # the least that S3 takes for a part but the last


def check_stores(data: Place, cfg: Config) -> Iterator[Finding]:
    """Each object store of the crawl; nothing for folders."""
    crawl = Crawl(data, cfg)
    for name, place in (
        ("storage.state", str(crawl.objects.root)),
        ("storage.warc", crawl.warc_place),
        ("storage.tables", crawl.tables_root),
    ):
        if "://" in place:
            yield _check_store(f"object store {name}", place, cfg)


def _check_store(check: str, place: str, cfg: Config) -> Finding:
    """Whether the store keeps its promises: conditional puts, whole and in parts."""
    fix = (
        "use a store that has If-None-Match and If-Match on PutObject and CompleteMultipartUpload;"
        " see docs/s3.md"
    )
    try:
        store: Objects = open_objects(place, _quick_settings(cfg.s3))
        key = f"doctor/{uuid.uuid4().hex}"
        try:
            broken = _broken_promise(store, key)
        finally:
            for name in (key, f"{key}.parts"):
                store.delete(name)
    except (OSError, ConfigError) as e:
        return Finding(check, False, str(e), "see the message, and docs/s3.md")
    return Finding(check, broken is None, f"{place}: {broken or 'conditional puts work'}", fix)


def _quick_settings(s3: S3) -> S3:
    """The settings of the store with the smallest parts, and little patience."""
    give_up_s = min(s3.give_up_s, 5.0)
    return s3.model_copy(update={"part_bytes": _PART_BYTES, "give_up_s": give_up_s})


def _broken_promise(store: Objects, key: str) -> str | None:
    """The first promise that the store breaks at this key, for a person to read."""
    if not _keeps_if_absent(store, key):
        return "If-None-Match: * is not heeded: an object was replaced"
    if not _keeps_if_match(store, key):
        return "If-Match is not heeded: an object was replaced by a writer that had not seen it"
    if key not in store.list("doctor/"):
        return "a listing lacks what was just written"
    if not _keeps_if_absent_in_parts(store, f"{key}.parts"):
        return "If-None-Match: * is not heeded when an upload in parts is completed"
    return None


def _keeps_if_absent(store: Objects, key: str) -> bool:
    first = store.put_if_absent(key, b"1")
    return first and not store.put_if_absent(key, b"2") and store.get(key)[0] == b"1"


def _keeps_if_match(store: Objects, key: str) -> bool:
    etag = store.get(key)[1]
    if store.compare_and_swap(key, b"3", etag) is None:
        return False
    return store.compare_and_swap(key, b"4", etag) is None and store.get(key)[0] == b"3"


def _keeps_if_absent_in_parts(store: Objects, key: str) -> bool:
    with tempfile.NamedTemporaryFile() as f:
        f.write(bytes(_PART_BYTES + 1))
        f.flush()
        path = Path(f.name)
        return store.put_file_if_absent(key, path) and not store.put_file_if_absent(key, path)
