"""The settings that a crawl has kept: `crawl.yaml` in its place."""

from __future__ import annotations

from pathlib import Path

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config.layers import Layer, Settings, read_settings, to_kept
from crawlkit.config.operation_sections import S3
from crawlkit.crawl.state import Place

FILE = "crawl.yaml"


def settings_of(
    data: Place, file: Path | None = None, sets: list[str] | tuple[str, ...] = ()
) -> Settings:
    """The settings of a command on a crawl. Raises ConfigError, StoreUnavailable.

    The access of a crawl in S3 stands in the environment, in `file` or in `sets`.
    """
    s3 = read_settings(None, file, sets).config.s3 if "://" in str(data) else S3()
    try:
        raw, _ = open_objects(str(data), s3).get(FILE)
    except ObjectMissing:
        return read_settings(None, file, sets)
    kept = Layer(f"{str(data).rstrip('/')}/{FILE}", raw.decode("utf-8-sig", "replace"))
    return read_settings(kept, file, sets)


def keep_settings(data: Place, settings: Settings) -> None:
    """Write the keys of these settings into crawl.yaml."""
    store = open_objects(str(data), settings.config.s3)
    store.put(FILE, to_kept(settings.own).encode())
