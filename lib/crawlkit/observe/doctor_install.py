"""Checks of `crawlkit doctor`: Python, packages, C extensions, Java and JARs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from crawlkit import native
from crawlkit.adapters.browser.rendering import find_chromium
from crawlkit.config import Config
from crawlkit.crawl.state import Crawl, Place
from crawlkit.observe.finding import Finding
from crawlkit.runtime.jars import (
    JarsError,
    find_java,
    is_good,
    jar_folder,
    read_lock,
    s3_jar_folder,
)
from crawlkit.runtime.session import S3_JARS, SessionError, check_jars, nameless_user

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)  # setup.cfg
JAVA = 17
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:==([^\s;,]+))?")
_TIMEOUT_S = 20


def check_python() -> Iterator[Finding]:
    """The version of this Python."""
    yield Finding(
        "python",
        OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON,
        f"{_own_version()} at {sys.executable}",
        "install Python 3.11 to 3.13 and make the environment with it (a checkout: `make setup"
        " PYTHON=/path/to/python3.11`)",
    )


def check_c_extensions() -> Iterator[Finding]:
    """Whether the C extensions are built; pages take longer without, and nothing is missing."""
    built = all(importlib.util.find_spec(f"crawlkit.native.{name}") for name in native.APIS)
    from crawlkit.rules.page import markup  # here: it needs the packages that are looked for

    if built and all(map(native.load, native.APIS)) and markup._tree:
        detail = "built"
    elif built:
        detail = (
            "built, but by another version or for another selectolax; their pure-Python"
            " fallbacks work instead: `make setup` rebuilds them"
        )
    else:
        detail = (
            "not built, their pure-Python fallbacks take twice the CPU to parse a page: a C"
            " compiler and Python's headers at `make setup` build them"
        )
    yield Finding("parts in C", True, detail)


def check_packages() -> Iterator[Finding]:
    """The packages that crawlkit's own metadata (setup.cfg, install_requires) requires."""
    try:
        requires = importlib.metadata.requires("crawlkit") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", True, "not compared: crawlkit runs from a folder or zip")
        return
    matches = [_REQUIREMENT.match(r) for r in requires if "extra ==" not in r]
    needed = [m.groups() for m in matches if m is not None]
    missing = [name for name, _ in needed if _version(name) is None]
    yield Finding(
        "packages",
        not missing,
        f"not installed: {', '.join(missing)}" if missing else f"{len(needed)} installed",
        "`pip install -r conf/requirements.lock`",
    )


def check_rendering(cfg: Config) -> Iterator[Finding]:
    """Whether pages can be rendered; a fault only where they shall be."""
    path, package = find_chromium(cfg.render), _version("playwright")
    lacks = [
        *(["playwright (crawlkit[render])"] if package is None else []),
        *(["a Chromium"] if path is None else []),
    ]
    use = "render.enabled is true" if cfg.render.enabled else "render.enabled is false: not used"
    there = f"playwright {package}, {path}"
    detail = f"{use}; " + (f"lacks {' and '.join(lacks)}" if lacks else there)
    fix = "`make setup-render`, or set render.chromium to a Chromium"
    yield Finding("rendering", not (cfg.render.enabled and lacks), detail, fix)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def check_pyspark() -> Iterator[Finding]:
    """The packages of the extra `spark`; some versions go with the JARs."""
    try:
        requires = importlib.metadata.requires("crawlkit") or []
    except importlib.metadata.PackageNotFoundError:
        requires = []  # crawlkit runs from a folder or zip
    for requirement in requires:
        match = _REQUIREMENT.match(requirement)
        if match is None or not re.search(r"extra == ['\"]spark['\"]", requirement):
            continue
        name, wanted = match.groups()
        version = _version(name)
        good = version is not None if wanted is None else version == wanted
        asked = f"{name}=={wanted}" if wanted else name
        fix = f"install {asked}: `pip install -r conf/spark.lock`, or crawlkit[spark]"
        yield Finding(name, good, version or "not installed", fix)


def check_user() -> Iterator[Finding]:
    """Whether the user has a name, which Spark's Java needs."""
    fix = nameless_user()
    yield Finding("user name", fix is None, f"user id {os.getuid()}", fix or "")


def check_java() -> Iterator[Finding]:
    """Whether there is a Java runtime, and its version."""
    fix = f"install a Java {JAVA} runtime and put it on PATH, or set JAVA_HOME"
    try:
        java = find_java()
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except (JarsError, OSError, subprocess.TimeoutExpired) as e:
        yield Finding("java", False, str(e)[:200], fix)
        return
    version = re.search(r'version "(?:1\.)?([0-9]+)', run.stderr + run.stdout)
    output = run.stderr or run.stdout
    detail = output.splitlines()[0][:100] if output else "prints nothing"
    yield Finding("java", version is not None and int(version[1]) >= JAVA, f"{java}: {detail}", fix)


def check_jar_folders(data: Place, cfg: Config, lock: Path | None) -> Iterator[Finding]:
    """Spark's JARs, and those for S3 if tables are kept there."""
    fix = "run `crawlkit jars`, or set CRAWLKIT_JARS to their folder"
    yield _check_jar_folder("jars", jar_folder(), lock, check_jars, fix)
    if "://" in Crawl(data, cfg).tables_root:
        yield _check_jar_folder(
            "jars for S3",
            s3_jar_folder(),
            lock and lock.with_name("jars-s3.lock"),
            partial(check_jars, jars=S3_JARS, what="S3"),
            "run `crawlkit jars --s3` (`make setup-s3` in a checkout does it)",
        )


def _check_jar_folder(
    name: str, folder: Path, lock: Path | None, check: Callable[[Path], None], fix: str
) -> Finding:
    if lock is not None and not lock.is_file():
        lock = None
    try:
        check(folder)
        jars = read_lock(lock) if lock is not None else []
        bad = [jar.file_name for jar in jars if not is_good(folder, jar)]
    except (SessionError, JarsError) as e:
        return Finding(name, False, str(e)[:300], fix)
    if bad:
        detail = f"missing or not as in {lock}: {', '.join(bad)}"
    elif lock is None:
        detail = f"{folder} (SHA-256 not compared: no lock file here)"
    else:
        detail = str(folder)
    return Finding(name, not bad, detail, fix)


def _own_version() -> str:
    """The version that the workers must have too."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def check_worker_python() -> Iterator[Finding]:
    """The Python that Spark's workers and driver are set to run."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        python = os.environ.get(name)
        if python:
            yield _check_worker_python(name, python)
    if not os.environ.get("PYSPARK_PYTHON"):
        yield Finding("PYSPARK_PYTHON", True, f"not set: {sys.executable} is used")


def _check_worker_python(name: str, python: str) -> Finding:
    fix = (
        f"unset {name}, or set it to a Python {_own_version()} in which crawlkit is installed,"
        f" for example {sys.executable}"
    )
    code = "import sys, crawlkit; print(*sys.version_info[:2])"
    try:
        run = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return Finding(name, False, f"{python}: {e.__class__.__name__}", fix)
    version = tuple(run.stdout.split())
    errors = run.stderr.strip().splitlines() or ["does not run"]
    detail = ".".join(version) or errors[-1][:120]
    return Finding(name, detail == _own_version(), f"{python}: {detail}", fix)
