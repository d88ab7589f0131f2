"""The settings that a crawl has kept: `crawl.yaml` in its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config.docs import to_starter
from crawlkit.config.edit import with_key
from crawlkit.config.layers import Layer, Settings, read_settings, to_kept
from crawlkit.config.operation_sections import S3

if TYPE_CHECKING:
    from crawlkit.crawl.state import Place

FILE = "crawl.yaml"
NAMES_SCOPE = ("hosts", "domains", "prefixes", "any")
OF_SEEDS = ("seeds", "--scope")  # where a scope stands that comes of seeds
NEW_HEAD = """\
# The settings of this crawl: every command on its folder reads them. Change what you like; a key
# that is left out has its default (`crawlkit config --data DIR --all` shows every key).
# How much one command fetches at most is said to it: crawlkit crawl --max-pages 1000 --rounds 5
"""


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


def keep_begun(data: Place, settings: Settings) -> None:
    """What is kept without being asked for: all settings of a crawl that has kept none, and the
    scope that the first seeds stand for. Of a file that is there, other lines stay as they are.
    """
    if settings.kept is None:
        keep_settings(data, settings)
        return
    if any(settings.kept.get("scope", {}).get(k) for k in NAMES_SCOPE):
        return
    scope = settings.own.get("scope", {})
    found = {k: v for k, v in scope.items() if settings.origins.get(f"scope.{k}") in OF_SEEDS}
    if found:
        store = open_objects(str(data), settings.config.s3)
        text = store.get(FILE)[0].decode("utf-8-sig", "replace")
        for key, value in found.items():
            text = with_key(text, "scope", key, value)
        store.put(FILE, text.encode())


def new_settings(data: Place, settings: Settings) -> bool:
    """Write a commented crawl.yaml for a crawl that is to begin; False if there is one already."""
    text = f"{NEW_HEAD}\n{to_starter(settings.own)}"
    return open_objects(str(data), settings.config.s3).put_if_absent(FILE, text.encode())
