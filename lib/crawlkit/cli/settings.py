"""What a verb is given, read: configuration, nominal time, seed lines, the crawl of a folder."""

from __future__ import annotations

import contextlib
import datetime
import getpass
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config import S3, layers
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.kept_settings import settings_of
from crawlkit.rules.url.canonical import text_of

if TYPE_CHECKING:
    from crawlkit.crawl.state import Place

YEAR_10000 = 253_402_300_800  # Unix s; timestamps of tables and of Python end before it
MAX_LINE_BYTES = 70_000
_NO_S3 = S3()
_NO_TEXT = (b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04")  # UTF-16, gzip, ZIP


def read_config(
    data: Place | None, config: Path | None, sets: list[str] | None, engine: str | None = None
) -> Config:
    """The configuration in force for a command. Raises ConfigError."""
    return read_settings(data, config, sets, engine).config


def read_settings(
    data: Place | None, config: Path | None, sets: list[str] | None, engine: str | None = None
) -> Settings:
    """What the crawl at `data` has kept (None: no crawl), then --config, --set and --engine.

    What is not as kept is told on standard error. Raises ConfigError.
    """
    given = list(sets or ())
    found = (
        layers.read_settings(None, config, given)
        if data is None
        else settings_of(data, config, given)
    )
    for change in found.changes():
        key, was, now = change
        shown = (json.dumps(layers.hide(key, v), default=str) for v in (was, now))
        tell("{}: was {}, now {}".format(key, *shown))
    return found if engine is None else found.with_passing([f"engine.name={engine}"], "--engine")


def tell(text: str) -> None:
    """Say something beside the answer, on standard error."""
    print(f"crawlkit: {text}", file=sys.stderr)


def parse_now(text: str | None) -> float:
    """Unix s of --now; a time without an offset is UTC. Raises ConfigError."""
    if text is None:
        return time.time()
    at = -1.0
    with contextlib.suppress(ValueError, OverflowError):
        if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
            at = float(text)
        else:
            given = datetime.datetime.fromisoformat(text)
            at = (given if given.tzinfo else given.replace(tzinfo=datetime.UTC)).timestamp()
    if not 0 <= at < YEAR_10000:
        raise ConfigError(
            f"--now {text!r:.60}: expected a time like 2026-01-31T12:00:00Z or Unix seconds, from"
            " 1970 to 9999"
        )
    return at


def _open_seeds(path: str, s3: S3) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    place, _, name = path.rpartition("/")
    return open_objects(place, s3).open_range(name) if "://" in path else open(path, "rb")


def read_seeds(path: str, s3: S3 = _NO_S3) -> Iterator[str]:
    """Lines of a seed file (`-`: standard input; s3://bucket/key). Raises ConfigError."""
    try:
        with _open_seeds(path, s3) as f:
            for n, raw in enumerate(f, 1):
                if n == 1 and raw.startswith(_NO_TEXT):
                    raise ConfigError(f"--seeds {path}: not a UTF-8 text file (one URL a line)")
                for line in raw.rstrip(b"\r\n").split(b"\r"):
                    yield text_of(line[:MAX_LINE_BYTES])
    except ObjectMissing:
        raise ConfigError(f"--seeds {path}: no such object") from None
    except OSError as e:
        raise ConfigError(
            f"--seeds {path}: {e.strerror or e}: give a text file with one URL a line"
        ) from None


def actor() -> str:
    """Who gives a command here: the user's name, or number where it has none."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"
