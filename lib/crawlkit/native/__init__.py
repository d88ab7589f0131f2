"""The parts in C (README.md here): loaded in one place, and only if they are of this version."""

from __future__ import annotations

import importlib
from types import ModuleType

# The interface of each part. `API` in its C file is the same number; both grow when the arguments
# or the results of a function change, so that a part built from another version is left alone.
APIS = {"_features": 2, "_prints": 2, "_tree": 2}


def load(name: str) -> ModuleType | None:
    """The part of this name; None where it is not built, or built for another version: then its
    pure-Python fallback does the work.
    """
    try:
        part = importlib.import_module(f"crawlkit.native.{name}")
    except ImportError:
        return None
    return part if getattr(part, "API", None) == APIS[name] else None
