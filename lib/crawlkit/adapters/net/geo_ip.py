"""Where an address is, by a file in MaxMind's format (maxmind.github.io/MaxMind-DB)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from crawlkit.config import ConfigError, Fetch

try:
    import maxminddb
except ImportError:  # the extra geoip
    maxminddb = None  # type: ignore[assignment]


@dataclass(frozen=True)
class GeoIp:
    """An address -> `country:DE`, `continent:EU`; nothing for what the file does not have.

    Goes to other processes by the path of its file, which each of them opens.
    """

    path: str

    def __call__(self, address: str) -> tuple[str, ...]:
        return _places(self.path, address)


def open_geo_ip(cfg: Fetch) -> Callable[[str], tuple[str, ...]] | None:
    """By the file that is set; None: there is none. Raises ConfigError if it cannot be read."""
    if cfg.geoip is None:
        return None
    if maxminddb is None:
        raise ConfigError("fetch.geoip needs the package maxminddb: pip install 'crawlkit[geoip]'")
    path = str(Path(cfg.geoip).absolute())
    try:
        _open(path)
    except (OSError, maxminddb.InvalidDatabaseError) as e:
        raise ConfigError(f"fetch.geoip {path}: {e}: give a file in MaxMind's format") from None
    return GeoIp(path)


@lru_cache(4)
def _open(path: str) -> Any:
    return maxminddb.open_database(path)


@lru_cache(100_000)
def _places(path: str, address: str) -> tuple[str, ...]:
    try:
        row = _open(path).get(address)
    except ValueError:  # no address, or one of the other family
        return ()
    found = []
    for kind, name in (("country", "iso_code"), ("continent", "code")):
        of_kind = row.get(kind) if isinstance(row, dict) else None
        code = of_kind.get(name) if isinstance(of_kind, dict) else None
        found += [f"{kind}:{code}"] if isinstance(code, str) else []
    return tuple(found)
