"""`crawlkit doctor`: what a crawl needs of this machine and its stores, checked one by one.

Each finding names the fix for what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from crawlkit.config import Config
from crawlkit.crawl.open_crawl import choose_engine
from crawlkit.crawl.state import Place
from crawlkit.observe import doctor_install as install, doctor_machine as machine
from crawlkit.observe.doctor_stores import check_stores
from crawlkit.observe.finding import Finding

Check = tuple[str, Callable[[], Iterator[Finding]]]


def doctor(data: Place, cfg: Config, jars_lock: Path | None = None) -> list[Finding]:
    """Every check, in order; one that fails unforeseen is a finding too."""
    checks: list[Check] = [
        ("python", install.check_python),
        ("packages", install.check_packages),
        ("parts in C", install.check_c_extensions),
        *_engine_checks(data, cfg, jars_lock),
        ("rendering", lambda: install.check_rendering(cfg)),
        ("agent", lambda: machine.check_agent(cfg)),
        ("name servers", lambda: machine.check_name_servers(cfg)),
        ("folders", lambda: machine.check_folders(data, cfg)),
        ("disk room", lambda: machine.check_disk(data, cfg)),
        ("open files", lambda: machine.check_open_files(cfg)),
        ("object store", lambda: check_stores(data, cfg)),
    ]
    return _run(checks)


def _engine_checks(data: Place, cfg: Config, jars_lock: Path | None) -> list[Check]:
    """Checks of the engine that runs the crawl; with `local`, what Spark lacks is told and is no
    fault.
    """
    of_spark: list[Check] = [
        ("pyspark", install.check_pyspark),
        ("java", install.check_java),
        ("user name", install.check_user),
        ("jars", lambda: install.check_jar_folders(data, cfg, jars_lock)),
        ("pyspark_python", install.check_worker_python),
        ("spark settings", lambda: machine.check_spark_settings(cfg)),
    ]
    name = choose_engine(cfg)

    def tell_engines() -> Iterator[Finding]:
        yield Finding("engine", True, f"{name} (engine.name = {cfg.engine.name})")
        if name == "local":
            lacks = [f.check for f in _run(of_spark) if not f.ok]
            detail = f"not usable, and not asked for; lacks {', '.join(lacks)}: `make setup-spark`"
            yield Finding("engine spark", True, detail if lacks else "usable too")

    return [("engine", tell_engines), *(of_spark if name == "spark" else ())]


def _run(checks: Sequence[Check]) -> list[Finding]:
    findings: list[Finding] = []
    for name, check in checks:
        try:
            findings += check()
        except Exception as e:  # a broken machine breaks in ways of its own; the other checks go on
            detail = f"the check failed: {type(e).__name__}: {e!s:.200}"
            findings.append(Finding(name, False, detail, "see the message"))
    return findings


def report(findings: list[Finding]) -> dict[str, Any]:
    """The findings for --json: ok, missing (names of checks), checks."""
    return {
        "ok": all(f.ok for f in findings),
        "missing": [f.check for f in findings if not f.ok],
        "checks": [f._asdict() for f in findings],
    }


def report_text(r: dict[str, Any]) -> str:
    """The result of `report` for a terminal."""
    lines = []
    for check in r["checks"]:
        lines.append(
            f"{'ok     ' if check['ok'] else 'MISSING'}  {check['check']}: {check['detail']}"
        )
        if not check["ok"]:
            lines.append(f"         fix: {check['fix']}")
    lines.append("all is there" if r["ok"] else f"missing: {', '.join(r['missing'])}")
    return "\n".join(lines)
