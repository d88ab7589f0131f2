"""Room on the disks of this machine."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable
from pathlib import Path


def free_bytes(places: Iterable[Path | str]) -> float:
    """The least room on the disks of some folders (or of those that they would be made in);
    infinite for places that are on no disk of this machine.
    """
    return min(
        (shutil.disk_usage(_standing(Path(p))).free for p in places if "://" not in str(p)),
        default=math.inf,
    )


def _standing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
