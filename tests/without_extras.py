"""A crawlkit command or program in an interpreter without the packages of the extras.

`python -m tests.without_extras VERB ...` is `crawlkit VERB ...` after `pip install crawlkit` alone.
"""

from __future__ import annotations

import configparser
import re
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def canonical(name: str) -> str:
    """A distribution's name as pip compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(extras_only: bool = False) -> set[str]:
    """Canonical names in setup.cfg's extras, and in install_requires."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    texts = [*setup["options.extras_require"].values()]
    if not extras_only:
        texts.append(setup["options"]["install_requires"])
    return {
        canonical(re.split(r"[\s=<>!~;\[]", line.strip())[0])
        for text in texts
        for line in text.splitlines()
        if line.strip() and not line.strip().startswith("#")
    }


def of_extras() -> set[str]:
    """Top-level modules of the packages in setup.cfg's extras."""
    names = asked_for(extras_only=True)
    return {
        module
        for module, owners in packages_distributions().items()
        if names.issuperset(map(canonical, owners))
    }


class NotInstalled:
    """Finds no module of some packages."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As `MetaPathFinder.find_spec`."""
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, NotInstalled(of_extras()))
    sys.argv = ["crawlkit", *sys.argv[1:]]
    runpy.run_module("crawlkit", run_name="__main__")
