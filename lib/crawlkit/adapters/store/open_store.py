"""The store of objects at a place: a folder or S3."""

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
