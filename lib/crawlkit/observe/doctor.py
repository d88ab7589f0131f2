"""`crawlkit doctor`: what a crawl needs of this machine and its stores, looked at one by one, with
the fix for what is missing.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crawlkit import native
from crawlkit.adapters.net.dns import NameServers
from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config import PLACEHOLDER_INFO_URL, Config, ConfigError
from crawlkit.crawl.state import Crawl, CrawlError, Place
from crawlkit.outcomes import Reason
from crawlkit.runtime.jars import (
    JarsError,
    find_java,
    is_good,
    jar_folder,
    read_lock,
    s3_jar_folder,
)
from crawlkit.runtime.session import S3_JARS, SessionError, check_jars

PYTHON = (3, 11)
JAVA = 17
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:==([^\s;,]+))?")
OPEN_FILES_SPARE = 256
ROOM_BYTES = 1 << 30
DNS_NAME = "crawlkit-doctor.invalid"  # RFC 6761: no such name, which a name server that works says
_TIMEOUT_S = 20


class Finding(NamedTuple):
    """One thing looked at. `fix` says what to do if it is not `ok`."""

    check: str
    ok: bool
    detail: str
    fix: str = ""


def doctor(data: Place, cfg: Config, jars_lock: Path | None = None) -> list[Finding]:
    """Every check, in order; one that fails unforeseen is a finding too."""
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("python", _python),
        ("packages", _packages),
        ("parts in C", _parts),
        ("java", _java),
        ("jars", lambda: _jars(data, cfg, jars_lock)),
        ("pyspark_python", _pyspark_python),
        ("spark settings", lambda: _spark_settings(cfg)),
        ("agent", lambda: _agent(cfg)),
        ("name servers", lambda: _dns(cfg)),
        ("folders", lambda: _folders(data, cfg)),
        ("disk room", lambda: _room(data, cfg)),
        ("open files", lambda: _open_files(cfg)),
        ("object store", lambda: _stores(data, cfg)),
    ]
    found: list[Finding] = []
    for name, check in checks:
        try:
            found += check()
        except Exception as e:  # a broken machine breaks in ways of its own; the other checks go on
            found.append(
                Finding(
                    name,
                    False,
                    f"the check failed: {type(e).__name__}: {e!s:.200}",
                    "see the message",
                )
            )
    return found


def report(found: list[Finding]) -> dict[str, Any]:
    """For --json."""
    return {
        "ok": all(f.ok for f in found),
        "missing": [f.check for f in found if not f.ok],
        "checks": [f._asdict() for f in found],
    }


def report_text(r: dict[str, Any]) -> str:
    lines = [
        f"{'ok     ' if c['ok'] else 'MISSING'}  {c['check']}: {c['detail']}"
        + ("" if c["ok"] else f"\n         fix: {c['fix']}")
        for c in r["checks"]
    ]
    return "\n".join([*lines, "all is there" if r["ok"] else f"missing: {', '.join(r['missing'])}"])


def _python() -> Iterator[Finding]:
    yield Finding(
        "python",
        sys.version_info[:2] == PYTHON,
        f"{sys.version_info[0]}.{sys.version_info[1]} at {sys.executable}",
        "install Python 3.11 and make the environment with it (`make setup"
        " PYTHON=/path/to/python3.11`)",
    )


def _parts() -> Iterator[Finding]:
    """The parts in C: nothing is missing without them, but pages take longer."""
    built = all(importlib.util.find_spec(f"crawlkit.native.{name}") for name in native.APIS)
    from crawlkit.rules.page import markup  # here: it needs the packages that are looked for

    if built and all(map(native.load, native.APIS)) and markup._tree:
        detail = "built"
    elif built:
        detail = (
            "built, but by another version or for another selectolax; their pure-Python"
            " fallbacks work instead: `make setup` builds them anew"
        )
    else:
        detail = (
            "not built, their pure-Python fallbacks take twice the CPU to parse a page: a C"
            " compiler and Python's headers at `make setup` build them"
        )
    yield Finding("parts in C", True, detail)


def _packages() -> Iterator[Finding]:
    """What crawlkit's own metadata (setup.cfg, install_requires) asks for."""
    try:
        requires = importlib.metadata.requires("crawlkit") or []
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", True, "not compared: crawlkit runs from a folder or zip")
        return
    needed = [_REQUIREMENT.match(r).groups() for r in requires if "extra ==" not in r]  # type: ignore[union-attr]
    lacks: list[str] = []
    for name, want in needed:
        have = _version(name)
        if want:
            yield Finding(
                name,
                have == want,
                have or "not installed",
                f"install {name}=={want}: `pip install -r conf/requirements.lock`",
            )
        elif have is None:
            lacks.append(name)
    yield Finding(
        "packages",
        not lacks,
        f"not installed: {', '.join(lacks)}" if lacks else f"{len(needed)} installed",
        "`pip install -r conf/requirements.lock`",
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _java() -> Iterator[Finding]:
    fix = f"install a Java {JAVA} runtime and put it on PATH, or set JAVA_HOME"
    try:
        java = find_java()
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (JarsError, OSError, subprocess.TimeoutExpired) as e:
        yield Finding("java", False, str(e)[:200], fix)
        return
    version = re.search(r'version "(?:1\.)?([0-9]+)', said.stderr + said.stdout)
    yield Finding(
        "java",
        version is not None and int(version[1]) >= JAVA,
        f"{java}:"
        f" "
        f"{(said.stderr or said.stdout).splitlines()[0][:100] if said.stderr or said.stdout else 'says nothing'}",
        fix,
    )


def _jars(data: Place, cfg: Config, lock: Path | None) -> Iterator[Finding]:

    yield _jars_of(
        "jars",
        jar_folder(),
        lock,
        check_jars,
        "run `crawlkit jars`, or set CRAWLKIT_JARS to their folder",
    )
    if "://" in Crawl(data, cfg).tables_root:
        check = partial(check_jars, jars=S3_JARS, what="S3")
        yield _jars_of(
            "jars for S3",
            s3_jar_folder(),
            lock and lock.with_name("jars-s3.lock"),
            check,
            "run `crawlkit jars --s3` (`make setup-s3` in a checkout does it)",
        )


def _jars_of(
    name: str, folder: Path, lock: Path | None, check: Callable[[Path], None], fix: str
) -> Finding:

    try:
        check(folder)
        bad = (
            [jar.file_name for jar in read_lock(lock) if not is_good(folder, jar)]
            if lock is not None and lock.is_file()
            else []
        )
    except (SessionError, JarsError) as e:
        return Finding(name, False, str(e)[:300], fix)
    checked = (
        "" if lock is not None and lock.is_file() else " (SHA-256 not compared: no lock file here)"
    )
    return Finding(
        name,
        not bad,
        f"missing or not as in {lock}: {', '.join(bad)}" if bad else f"{folder}{checked}",
        fix,
    )


def _pyspark_python() -> Iterator[Finding]:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        python = os.environ.get(name)
        if not python:
            continue
        fix = (
            f"unset {name}, or set it to a Python 3.11 in which crawlkit is installed, for example"
            f" {sys.executable}"
        )
        try:
            said = subprocess.run(
                [python, "-c", "import sys, crawlkit; print(*sys.version_info[:2])"],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            yield Finding(name, False, f"{python}: {e.__class__.__name__}", fix)
            continue
        version = tuple(said.stdout.split())
        yield Finding(
            name,
            version == tuple(map(str, PYTHON)),
            f"{python}:"
            f" "
            f"{'.'.join(version) or (said.stderr.strip().splitlines() or ['does not run'])[-1][:120]}",
            fix,
        )
    if not os.environ.get("PYSPARK_PYTHON"):
        yield Finding("PYSPARK_PYTHON", True, f"not set: {sys.executable} is used")


def _spark_settings(cfg: Config) -> Iterator[Finding]:
    zone = cfg.spark.extra.get("spark.sql.session.timeZone", "UTC")
    yield Finding(
        "time zone",
        zone in ("UTC", "Etc/UTC", "Z", "GMT"),
        f"spark.sql.session.timeZone = {zone}",
        "take spark.sql.session.timeZone out of spark.extra: tables hold UTC",
    )
    on = cfg.spark.extra.get("spark.speculation", "false").lower() == "true"
    yield Finding(
        "speculation",
        not on,
        f"spark.speculation = {str(on).lower()}",
        "take spark.speculation out of spark.extra: a copied fetch task would ask hosts twice",
    )
    retries = re.fullmatch(r"local\[[^,\]]*\]|local", cfg.spark.master) is None
    yield Finding(
        "spark.master",
        retries,
        cfg.spark.master,
        "write local[N,4]: plain local[N] never retries a task",
    )


def _agent(cfg: Config) -> Iterator[Finding]:
    yield Finding(
        "contact address",
        cfg.agent.info_url != PLACEHOLDER_INFO_URL,
        f"agent.info_url = {cfg.agent.info_url}",
        "set agent.info_url to a page that explains your crawler and how to opt out; the"
        " placeholder may only speak to loopback",
    )


def _dns(cfg: Config) -> Iterator[Finding]:
    import dns.resolver

    servers = list(cfg.fetch.resolvers)
    if not servers:
        if "*" in cfg.fetch.connect_to:
            yield Finding("name servers", True, "not needed: fetch.connect_to covers every host")
            return
        try:
            servers = list(map(str, dns.resolver.Resolver().nameservers))
        except dns.exception.DNSException:
            pass
    if not servers:
        yield Finding(
            "name servers",
            False,
            "the system names none",
            "set fetch.resolvers, or give the machine name servers (/etc/resolv.conf)",
        )

    async def ask(server: str) -> Any:
        query = NameServers([server])
        try:
            return await query(DNS_NAME)
        finally:
            await query.close()

    for server in servers:
        said = asyncio.run(ask(server))
        yield Finding(
            "name servers",
            said.error is not Reason.DNS_FAIL,
            f"{server}: {said.detail if said.error is Reason.DNS_FAIL else 'answers'}",
            "correct fetch.resolvers, or open the way to port 53 of this server",
        )


def _folders(data: Place, cfg: Config) -> Iterator[Finding]:
    try:
        crawl = Crawl(data, cfg)
        if "://" not in str(crawl.objects.root):
            crawl.check()
    except CrawlError as e:
        yield Finding("crawl folder", False, str(e), "see the message")
        return
    places = {
        "--data": str(crawl.data),
        "storage.tables": crawl.tables_root,
        "storage.warc": crawl.warc_place,
        "storage.state": str(crawl.objects.root),
        "storage.spool": cfg.storage.spool or tempfile.gettempdir(),
    }
    for name, place in places.items():
        if "://" not in place:
            error = _unwritable(Path(place))
            yield Finding(
                f"write access {name}",
                error is None,
                f"{place}{f': {error}' if error else ''}",
                f"give this user write access to {place}, or choose another folder",
            )


def _unwritable(folder: Path) -> str | None:
    """Why a folder, or the nearest that exists above it, cannot be written to."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as e:
        return e.strerror or str(e)


def _room(data: Place, cfg: Config) -> Iterator[Finding]:
    folder = Crawl(data, cfg).scratch
    while not folder.exists():
        folder = folder.parent
    free, need = (
        shutil.disk_usage(folder).free,
        2 * cfg.warc.roll_bytes * cfg.fetch.slots + ROOM_BYTES,
    )
    yield Finding(
        "disk room",
        free >= need,
        f"{free / 1e9:.1f} GB free at {folder}",
        f"free {need / 1e9:.1f} GB at least: two open WARC files a slot and room for tables",
    )


def _open_files(cfg: Config) -> Iterator[Finding]:
    have, need = (
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        2 * cfg.fetch.in_flight + OPEN_FILES_SPARE,
    )
    yield Finding(
        "open files",
        have in (-1, resource.RLIM_INFINITY) or have >= need,
        f"limit {have}",
        f"raise it to {need} at least (`ulimit -n {need}`), or lower fetch.in_flight",
    )


def _stores(data: Place, cfg: Config) -> Iterator[Finding]:
    crawl = Crawl(data, cfg)
    for name, place in (
        ("storage.state", str(crawl.objects.root)),
        ("storage.warc", crawl.warc_place),
        ("storage.tables", crawl.tables_root),
    ):
        if "://" in place:
            yield _store(f"object store {name}", place, cfg)


def _store(check: str, place: str, cfg: Config) -> Finding:
    """Does the store keep its promises: conditional puts, whole and in parts?"""
    fix = (
        "use a store that has If-None-Match and If-Match on PutObject and CompleteMultipartUpload;"
        " see docs/s3.md"
    )
    try:
        store: Objects = open_objects(
            place,
            cfg.s3.model_copy(
                update={"part_bytes": 5 << 20, "give_up_s": min(cfg.s3.give_up_s, 5.0)}
            ),
        )
        key = f"doctor/{uuid.uuid4().hex}"
        try:
            broken = _broken_promise(store, key)
        finally:
            for name in (key, f"{key}.parts"):
                store.delete(name)
    except (OSError, ConfigError) as e:
        return Finding(check, False, str(e), "see the message, and docs/s3.md")
    return Finding(check, broken is None, f"{place}: {broken or 'conditional puts work'}", fix)


def _broken_promise(store: Objects, key: str) -> str | None:
    if (
        not store.put_if_absent(key, b"1")
        or store.put_if_absent(key, b"2")
        or store.get(key)[0] != b"1"
    ):
        return "If-None-Match: * is not heeded: an object was replaced"
    etag = store.get(key)[1]
    second = store.compare_and_swap(key, b"3", etag)
    if (
        second is None
        or store.compare_and_swap(key, b"4", etag) is not None
        or store.get(key)[0] != b"3"
    ):
        return "If-Match is not heeded: an object was replaced by a writer that had not seen it"
    if key not in store.list("doctor/"):
        return "a listing lacks what was just written"
    with tempfile.NamedTemporaryFile() as f:
        f.write(bytes((5 << 20) + 1))
        f.flush()
        if not store.put_file_if_absent(f"{key}.parts", Path(f.name)) or store.put_file_if_absent(
            f"{key}.parts", Path(f.name)
        ):
            return "If-None-Match: * is not heeded when an upload in parts is completed"
    return None
