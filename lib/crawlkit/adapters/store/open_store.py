"""The store of objects at a place, a folder or S3; of S3 only where it is asked for."""

from __future__ import annotations

from pathlib import Path

from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import Objects
from crawlkit.config import S3


def open_objects(place: str, s3: S3) -> Objects:
    """The store at a place: `s3://bucket/prefix` (also `s3a://`), else a folder.

    Raises ConfigError.
    """
    if "://" not in place:
        return LocalObjects(Path(place))
    from crawlkit.adapters.store.s3_objects import S3Objects  # boto3 takes half a second to load

    return S3Objects.at(place, s3)


def delta_options(place: str, s3: S3) -> dict[str, str] | None:
    """delta-rs' storage options for a table at a place; None: a folder. Raises StoreRefused."""
    if "://" not in place:
        return None
    from crawlkit.adapters.store import s3_client

    return s3_client.delta_options(s3)
