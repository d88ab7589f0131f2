"""What `lib` imports and what `setup.cfg` asks for are the same packages."""

from __future__ import annotations

import ast
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.without_extras import asked_for, canonical

ROOT = Path(__file__).resolve().parents[1]
# Asked for though nothing imports them, each with its reason.
NOT_IMPORTED = {
    "delta-spark": "its JAR is the table format: data/jars.lock and this version belong together",
    "pandas": "pyspark's Arrow functions ask for it; reading/rows.py loads it by its name",
    "polars": "reading/rows.py loads it by its name",
}


def imported() -> dict[str, str]:
    """Distribution -> a file of `lib` that imports it, inside functions too."""
    distributions = packages_distributions()
    found: dict[str, str] = {}
    for file in sorted((ROOT / "lib" / "crawlkit").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "crawlkit":
                    for distribution in distributions.get(top, [top]):
                        found.setdefault(canonical(distribution), str(file.relative_to(ROOT)))
    return found


def test_what_is_imported_is_what_is_asked_for():
    found = imported()
    missing = {name: file for name, file in found.items() if name not in asked_for()}
    assert not missing, "imported, but not in setup.cfg"
    assert asked_for() - set(found) == set(NOT_IMPORTED), "in setup.cfg, but not imported"


def test_the_locks_have_every_package_that_is_asked_for():
    """polars, which no verb and no engine needs, is in that of the tests alone."""
    locks = [
        ROOT / "conf" / f"{name}.lock"
        for name in ("requirements", "spark", "s3", "render", "tests")
    ]
    locked = {
        canonical(line.partition("==")[0])
        for lock in locks
        for line in lock.read_text().splitlines()
        if "==" in line
    }
    assert asked_for() <= locked
