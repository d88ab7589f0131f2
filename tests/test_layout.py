"""The layout's promises: import direction, pure rules, no own name in the way, generated docs are
current.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from crawlkit import config, tables

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lib" / "crawlkit"
MODULES = sorted(PACKAGE.rglob("*.py"))
IMPURE = {
    "time",
    "random",
    "socket",
    "logging",
    "requests",
    "urllib3",
    "asyncio",
    "threading",
    "subprocess",
    "pyspark",
    "delta",
    "secrets",
}
SHARED = {"outcomes", "model", "config", "tables", "__version__"}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def statements(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        inner = getattr(node, field, ())
        for child in inner if isinstance(inner, list) else ():
            yield child
            yield from statements(child)


@cache
def imports(path: Path) -> list[str]:
    """Absolute names of all modules that a file imports, also inside functions."""
    found = []
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "crawlkit":
                found += [f"crawlkit.{a.name}" for a in node.names]
            else:
                found.append(str(node.module))
    return found


def layer(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "crawlkit" and len(parts) > 1 else None


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    where = path.relative_to(PACKAGE).parts[0]
    for name in imports(path):
        to = layer(name)
        if where == "rules":
            assert name.split(".")[0] not in IMPURE, f"{path.name} imports {name}: rules are pure"
            assert to in (None, "rules", "native", *SHARED), f"{path.name} imports {name}"
        elif where == "stages":
            assert to in (
                None,
                "rules",
                "stages",
                *SHARED,
            ), f"{path.name} imports {name}: stages get adapters handed in"
        elif where == "adapters":
            assert to in (None, "rules", "adapters", *SHARED), f"{path.name} imports {name}"


def test_rules_read_no_clock_and_no_chance() -> None:
    for path in (PACKAGE / "rules").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in (
                    "now",
                    "utcnow",
                    "today",
                    "urandom",
                    "urlopen",
                ), f"{path.name}:{node.lineno} calls {node.func.attr}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in (
                    "open",
                    "print",
                    "input",
                    "eval",
                    "exec",
                ), f"{path.name}:{node.lineno} calls {node.func.id}"


def test_no_unsafe_loading() -> None:
    for path in MODULES:
        names = {n.split(".")[0] for n in imports(path)}
        assert not names & {"pickle", "marshal", "shelve"}, path
        assert "yaml.load(" not in path.read_text("utf-8"), path


def test_no_job_hides_a_standard_module() -> None:
    for path in (ROOT / "jobs").glob("*.py"):
        assert path.stem not in sys.stdlib_module_names


@pytest.mark.parametrize(
    "made,file",
    [
        (tables.to_markdown, "docs/tables.md"),
        (config.to_markdown, "docs/configuration.md"),
        (config.to_yaml, "conf/default.yaml"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_generated_files_are_current(made: Callable[[], str], file: str) -> None:
    assert (ROOT / file).read_text("utf-8") == made(), f"{file} is stale: run `make docs`"


def test_every_setting_is_read() -> None:
    """A setting that nothing reads is a fault."""
    text = "\n".join(p.read_text("utf-8") for p in MODULES if p.name != "config.py")
    own = (PACKAGE / "config.py").read_text("utf-8")
    unread = [
        k
        for k in config.known_keys()
        if "." in k
        and f".{k.split('.')[1]}" not in text
        and f"self.{k.split('.')[1]}" not in own
        and k != "agent.from"
    ]
    assert not unread
