"""The layout's promises: import direction, pure rules, no own name in the way, generated docs are
current.
"""

from __future__ import annotations

import ast
import graphlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from crawlkit.config import docs as config_docs, whole
from crawlkit.round import contracts

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
# What each room may import of ours, beside itself. The rooms stand in order: a room imports only
# rooms below it in this list (and so no circle of rooms can come up).
ROOMS = {
    "__init__": {"reading", "version"},  # the first for its types; loaded when it is called
    "__main__": {"cli"},
    "api": {"control", "crawl", "observe", "parsing", "rules", *"config outcomes tables".split()},
    "cli": {
        *"control crawl exports local observe parsing planner reading report round".split(),
        "runtime",
        *"upkeep engine adapters rules config model outcomes tables version".split(),
    },
    "reading": {
        *"local observe exports round crawl adapters rules config model outcomes tables".split()
    },
    "local": {"round", "crawl", "runtime", "adapters", "rules", "config", "model"},
    "upkeep": {
        *"control exports round report crawl stages parsing engine runtime adapters".split(),
        *"rules config model outcomes tables version".split(),
    },
    "control": {
        *"observe report crawl runtime adapters rules config model outcomes tables".split(),
        "version",
    },
    "observe": {
        *"exports round report crawl slot stages parsing engine runtime adapters".split(),
        *"rules native".split(),
        *"config model outcomes tables version".split(),
    },
    "exports": {
        "crawl",
        "adapters",
        "rules",
        "config",
        "model",
        "outcomes",
        "tables",
        "version",
    },
    "round": {
        *"report crawl slot stages parsing engine runtime adapters rules".split(),
        *"config model outcomes tables".split(),
    },
    "report": {"crawl", "engine", "adapters", "rules", "config", "model", "outcomes", "tables"},
    "crawl": {"engine", "runtime", "adapters", "rules", "config", "model", "outcomes", "tables"},
    "planner": {"adapters", "rules", "config", "model"},
    "slot": {"adapters", "rules", "config", "model", "outcomes", "tables", "version"},
    "stages": {"parsing", "engine", "rules", "config", "model", "outcomes", "tables"},
    "parsing": {"rules", "config", "model", "outcomes", "tables", "version"},
    "runtime": {"adapters", "rules", "config"},
    "adapters": {"engine", "rules", "config", "model", "outcomes", "tables", "version"},
    "engine": {"tables"},
    "rules": {"native", "config", "model", "outcomes", "tables"},
    "native": set(),
    "config": {"version"},
    "model": set(),
    "outcomes": set(),
    "tables": set(),
    "version": set(),
}


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
def imports(path: Path, members: bool = False) -> list[str]:
    """Absolute names of all modules that a file imports, also inside functions.

    members: what is imported from a module is named too (it may be a module itself).
    """
    found = []
    for node in statements(parsed(path)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "crawlkit" or members:
                found += [f"{node.module}.{a.name}" for a in node.names]
            if node.module != "crawlkit":
                found.append(str(node.module))
    return found


def layer(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "crawlkit" and len(parts) > 1 else None


def test_imports_go_one_way() -> None:
    """Also those inside functions and under TYPE_CHECKING."""
    order = list(ROOMS)
    wrong = []
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in imports(path):
            to = layer(name)
            if to is not None and to != room and to not in ROOMS[room]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}")
            if room == "rules" and name.split(".")[0] in IMPURE:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {name}: rules are pure")
    assert not wrong, "\n".join(wrong)
    for room, below in ROOMS.items():
        assert below <= {*order}, room
        assert all(order.index(to) > order.index(room) for to in below), room


def test_modules_import_each_other_in_no_circle() -> None:
    known = {module_name(p): p for p in MODULES}
    graph = {}
    for name, path in known.items():
        named = [i if i in known else i.rpartition(".")[0] for i in imports(path, members=True)]
        graph[name] = {n for n in named if n in known} - {name}
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()  # raises CycleError, which names the circle


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


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
    """But for functions that the driver gives its own workers, through a socket without a name."""
    workers = {PACKAGE / "engine" / name for name in ("workers.py", "worker_main.py")}
    for path in set(MODULES) - workers:
        names = {n.split(".")[0] for n in imports(path)}
        assert not names & {"pickle", "marshal", "shelve"}, path
        assert "yaml.load(" not in path.read_text("utf-8"), path


def test_no_job_hides_a_standard_module() -> None:
    for path in (ROOT / "jobs").glob("*.py"):
        assert path.stem not in sys.stdlib_module_names


@pytest.mark.parametrize(
    "made,file",
    [
        (contracts.to_markdown, "docs/tables.md"),
        (config_docs.to_markdown, "docs/configuration.md"),
        (config_docs.to_yaml, "conf/default.yaml"),
        (contracts.to_json, "airflow_dags/contracts.json"),
    ],
    ids=lambda p: p if isinstance(p, str) else "",
)
def test_generated_files_are_current(made: Callable[[], str], file: str) -> None:
    assert (ROOT / file).read_text("utf-8") == made(), f"{file} is stale: run `make docs`"


def test_every_setting_is_read() -> None:
    """A setting that nothing reads is a fault: `cfg.SECTION.KEY`, or `.KEY` of what is annotated
    with the section's class or assigned from a section.
    """
    sections = {name: f.annotation for name, f in whole.Config.model_fields.items()}
    of_class = {c.__name__: name for name, c in sections.items() if c is not None}
    seen: set[tuple[str, str]] = {("alerts", "profile")}  # read as a key of what is given
    for path in MODULES:
        tree = parsed(path)
        names = sections_of_names(tree, of_class)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                owner = last_name(node.value)
                seen |= {(s, node.attr) for s in names.get(owner, set()) | ({owner} & {*sections})}
    unread = [
        f"{name}.{key}"
        for name, section in sections.items()
        for key in getattr(section, "model_fields", {})
        if (name, key) not in seen
    ]
    assert not unread


def last_name(node: ast.AST) -> str:
    """`c` of `c` and of `a.b.c`."""
    return getattr(node, "id", "") or getattr(node, "attr", "")


def sections_of_names(tree: ast.Module, of_class: dict[str, str]) -> dict[str, set[str]]:
    """The sections of the configuration that each variable and attribute of a module may hold."""
    of_class = dict(of_class)
    found: dict[str, set[str]] = {"config": {"scope"}}  # of a compiled scope
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            of_class |= {
                a.asname: of_class[a.name] for a in node.names if a.asname and a.name in of_class
            }
        elif isinstance(node, ast.ClassDef) and node.name in of_class:
            found.setdefault("self", set()).add(of_class[node.name])
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            name = node.arg if isinstance(node, ast.arg) else last_name(node.target)
            classes = {last_name(n) for n in ast.walk(node.annotation)}
            found.setdefault(name, set()).update(of_class[c] for c in classes & {*of_class})
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target, value in assigned(node.targets[0], node.value):
                used = {last_name(n) for n in ast.walk(value)}
                held = set().union(*(found.get(u, set()) for u in used))
                found.setdefault(target, set()).update(held | used & {*of_class.values()})
    return found


def assigned(target: ast.AST, value: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names with what is assigned to them; `a, b = x, y` piece by piece."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for t, v in zip(target.elts, value.elts, strict=False):
            yield from assigned(t, v)
    else:
        yield last_name(target), value


# Imports inside functions: for the JVM and boto3, for optional packages, and for packages that load
# slowly and are needed by one function. Module -> how many.
INSIDE_FUNCTIONS = {
    "adapters/lake/table_reader.py": 1,  # pyarrow.dataset loads pandas; boto3
    "adapters/store/open_store.py": 2,  # boto3
    "api.py": 2,  # datasketch loads scipy
    "cli/main.py": 1,  # the URL rules, for an address in another encoding alone
    "cli/verbs/sql.py": 3,  # Spark, for --engine spark alone
    "observe/doctor_install.py": 1,  # what it looks for may be missing
    "rules/page/language.py": 1,  # its model takes half a second to read
    "rules/page/other_formats.py": 1,  # optional: pypdfium2
    "rules/url/linear_patterns.py": 1,  # Arrow, for crawls with patterns alone
    "runtime/session.py": 6,  # pyspark, py4j, boto3
}


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods of a module, inner ones too."""
    return [
        n for n in ast.walk(parsed(path)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_imports_stand_at_the_top() -> None:
    found = {}
    for path in MODULES:
        inner = {
            id(i)
            for f in functions_of(path)
            for i in ast.walk(f)
            if isinstance(i, ast.Import | ast.ImportFrom)
        }
        if inner:
            found[str(path.relative_to(PACKAGE))] = len(inner)
    assert found == INSIDE_FUNCTIONS
    assert sum(found.values()) <= 20


MAX_LINES = 400  # of a file
MAX_FUNCTION_LINES = 50
LONG_FUNCTIONS = {
    "rules/robots/parser.py parse": "one loop over the lines, on every host's way",
}


def test_files_and_functions_are_short() -> None:
    long_files = [p.name for p in MODULES if len(p.read_text("utf-8").splitlines()) > MAX_LINES]
    long_functions = {
        f"{path.relative_to(PACKAGE)} {f.name}"
        for path in MODULES
        for f in functions_of(path)
        if (f.end_lineno or 0) - f.lineno + 1 > MAX_FUNCTION_LINES
    }
    assert (long_files, long_functions) == ([], set(LONG_FUNCTIONS))


def test_rooms_are_small_and_names_mean_one_thing() -> None:
    folders = Counter(p.parent for p in MODULES if p.name != "__init__.py")
    assert max(folders.values()) <= 14, folders.most_common(1)
    names = Counter(p.stem for p in MODULES if not p.stem.startswith("__"))
    assert [n for n, k in names.items() if k > 1] == []
