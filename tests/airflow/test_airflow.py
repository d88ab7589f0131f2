"""The DAGs in a real Airflow (REQUIREMENTS M1): held to the stage contracts; rounds through its
REST interface, killed, repeated, refused.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import pytest
import typer
from crawlkit.cli.main import load_all
from crawlkit.config import load_config
from crawlkit.crawl.state import Crawl
from crawlkit.local.airflow import AirflowError, LocalAirflow, alive, below, sample_site
from crawlkit.round.job import ROUND, STAGES as STAGES_OF_JOB

from tests.fakeweb import EPOCH, Delays, Server, judge, load_log
from tests.rounds.crawlproc import ROOT, differences, everything, facts, run, settings, steady_web

pytestmark = pytest.mark.waits

STAGES = ("inject", *ROUND)
WEB = steady_web()
ROUND_S = 900.0  # a round through Airflow takes 2 to 4 minutes on two cores


@pytest.fixture(scope="module")
def installed() -> Path:
    """The environment of conf/airflow.lock (skips where it cannot be had), and the zip."""

    def make(target: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", target, f"PYTHON={Path(sys.base_prefix, 'bin', 'python3.11')}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=900,
        )

    environment = make("airflow-setup")
    if environment.returncode != 0:
        pytest.skip(
            "Airflow cannot be installed by `make airflow-setup`:"
            f" {environment.stderr.strip()[-500:]}"
        )
    zipped = make("zip")
    assert zipped.returncode == 0, zipped.stderr[-3000:]
    return ROOT / ".venv-airflow" / "bin" / "python"


@pytest.fixture(scope="module")
def dump(installed, tmp_path_factory) -> dict:
    """What Airflow makes of the DAG files."""
    home = str(tmp_path_factory.mktemp("dump"))
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "AIRFLOW_HOME": home,
        "HOME": home,
    }
    done = subprocess.run(
        [installed, ROOT / "tests" / "airflow" / "airflow_dump.py", ROOT / "airflow_dags"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def command_of(*names: str):
    found = typer.main.get_command(load_all())
    for name in names:
        found = found.commands[name]
    return found


def written() -> dict[str, list[str]]:
    """The tables that each stage writes."""
    return {name: sorted(stage.writes) for name, stage in STAGES_OF_JOB.items()}


# -- contracts: no Airflow is started --------------------------------------------------
def test_the_dags_are_read_without_error_and_without_the_product(dump):
    assert dump["import_errors"] == {}
    assert set(dump["dags"]) == {
        "crawl_round",
        "fast_round",
        "daily_analysis",
        "maintenance",
        "operator_action",
        "data_quality",
    }
    assert dump["loaded_at_parse"] == []
    for name, dag in dump["dags"].items():
        assert (dag["max_active_runs"], dag["catchup"]) == (1, False), name
        assert dag["timeout"] and dag["deadline"] and dag["told"], name
        assert all(t["retries"] >= 1 and t["limited"] for t in dag["tasks"]), name


def test_the_dags_have_the_stages_of_a_round_in_order(dump):
    for name, wanted in (("crawl_round", STAGES), ("fast_round", ROUND)):
        tasks = [t for t in dump["dags"][name]["tasks"] if t["spark"]]
        assert tuple(t["task_id"] for t in tasks) == wanted
        assert [t["task_id"] for t in tasks if t["mapped"]] == ["fetch"]
        after = {t["task_id"]: t["after"] for t in dump["dags"][name]["tasks"]}
        assert {t["task_id"]: t["rule"] for t in tasks}["commit"] == "all_done_min_one_success"
        for before, stage in zip(wanted, wanted[1:]):
            assert before in after[stage] or (before, stage, after["regions"]) == (
                "generate",
                "fetch",
                ["generate"],
            ), (before, stage)
        assert "update" in after["report"]  # rank may be skipped, and then ends before update


def test_every_job_is_there_and_takes_its_arguments(dump):
    stages = [(d, t) for d, dag in dump["dags"].items() for t in dag["tasks"] if t["spark"]]
    assert {t["task_id"] for _, t in stages} == {*STAGES, "maintain"}
    for name, task in stages:
        job = Path(task["application"])
        assert job.is_file() and job.parent == ROOT / "jobs" and job.stem == task["task_id"], (
            name,
            task,
        )
        command_of(job.stem).make_context(
            job.stem, list(task["arguments"])
        )  # raises on a word that it does not take
    for order in dump["orders"]:
        command_of("command", order[0]).make_context(
            order[0], ["--command-id", "x", "--data", "/d", "--json", *order[1:]]
        )
    assert {o[0] for o in dump["orders"]} == set(dump["actions"])


def test_the_assets_are_the_tables_that_the_stages_write(dump):
    assert {s: sorted(names) for s, names in dump["writes"].items()} == {
        s: sorted(names) for s, names in written().items()
    }
    for dag in ("crawl_round", "fast_round"):
        for task in dump["dags"][dag]["tasks"]:
            assert task["writes"] == [
                f"crawlkit.{name}" for name in dump["writes"].get(task["task_id"], [])
            ]


def test_each_run_has_a_name_of_its_own(dump):
    assert len(set(dump["names"])) == 5
    assert all(len(n) <= 80 and re.fullmatch(r"[A-Za-z0-9_.-]+", n) for n in dump["names"])


ENDED = """
import pathlib, sys, threading, time
sys.path.insert(0, sys.argv[1])
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from crawlkit_tasks import Stage, _environment

def end():
    for _ in range(400):
        if driver.exists():
            return stage.on_kill()
        time.sleep(0.05)

driver, stage = pathlib.Path(sys.argv[2]), Stage(task_id="stage", stage="fetch")
stage.env_vars = _environment()
threading.Thread(target=end).start()
SparkSubmitOperator.execute(stage, {})
"""


def test_the_driver_ends_with_its_stage(installed, tmp_path):
    """A task that runs out of time: Airflow itself would kill spark-submit and leave the driver
    below it.
    """
    submit, driver = tmp_path / ".venv" / "bin" / "spark-submit", tmp_path / "driver"
    submit.parent.mkdir(parents=True)
    submit.write_text(
        f"#!/bin/sh\nsleep 60 &\necho $! > {driver}.new\nmv {driver}.new {driver}\nwait\n"
    )
    submit.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "AIRFLOW_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "CRAWLKIT_HOME": str(tmp_path),
        "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2,4]"}',
    }
    done = subprocess.run(
        [installed, "-c", ENDED, ROOT / "airflow_dags", driver],
        env=env,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 1 and "Error code is: -9" in done.stderr, done.stderr[-3000:]
    assert not alive(int(driver.read_text()))


# -- a running Airflow -----------------------------------------------------------------
class Site:
    """Airflow with the sample site behind its forms' defaults."""

    def __init__(self, folder: Path, airflow: LocalAirflow, config: Path, seeds: list[str]) -> None:
        self.folder, self.airflow, self.config, self.seeds, self.data = (
            folder,
            airflow,
            config,
            seeds,
            folder / "crawl",
        )

    @cached_property
    def first(self) -> tuple[str, str]:
        """The first round of the sample site, and its proof after it: the round's run and state."""
        self.airflow.pause("data_quality", False)
        return self.round(seeds=self.seeds)

    def round(self, **conf: object) -> tuple[str, str]:
        run_id = self.airflow.trigger("crawl_round", conf)
        return run_id, self.airflow.wait("crawl_round", run_id, ROUND_S)

    def whole(
        self, dag_id: str, conf: dict | None = None, seconds: float = ROUND_S
    ) -> dict[str, str]:
        """A run of a DAG to its end: the states of its tasks."""
        run_id = self.airflow.trigger(dag_id, conf or {})
        self.airflow.wait(dag_id, run_id, seconds)
        return self.states(dag_id, run_id)

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        return {t["task_id"]: t["state"] for t in self.airflow.tasks(dag_id, run_id)}

    def log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        return json.dumps(
            self.airflow.get(
                f"dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/logs/{attempt}"
            )
        )

    def told(self) -> list[dict]:
        file = self.folder / "told.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(scope="module")
def site(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("airflow")
    with sample_site(folder, ROOT / "data" / "samples" / "site") as (config, seeds):
        env = {
            "CRAWLKIT_DATA": str(folder / "crawl"),
            "CRAWLKIT_CONFIG": str(config),
            "CRAWLKIT_ON_FAILURE": f"tee -a {folder}/told.jsonl",
        }
        with LocalAirflow(folder / "airflow", env) as airflow:
            yield Site(folder, airflow, config, seeds)
        assert not [
            p
            for p in map(int, filter(str.isdigit, os.listdir("/proc")))
            if alive(p) and str(folder) in Path(f"/proc/{p}/cmdline").read_text(errors="replace")
        ]


@pytest.fixture
def crawled(site) -> None:
    """The sample site has had its first round."""
    assert site.first[1] == "success", site.states("crawl_round", site.first[0])


def test_a_running_airflow_reads_the_dags_without_error(site):
    assert site.airflow.get("importErrors")["total_entries"] == 0
    errors = subprocess.run(
        [site.airflow.bin / "airflow", "dags", "list-import-errors", "-o", "json"],
        env=site.airflow.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert errors.returncode == 0 and json.loads(errors.stdout.splitlines()[-1]) == [], (
        errors.stdout
    )


@pytest.mark.slow
@pytest.mark.usefixtures("crawled")
def test_a_round_through_rest_leaves_tables_warc_and_report(site):
    run_id, _ = site.first
    assert set(site.states("crawl_round", run_id).values()) == {"success"}
    status = run("status", "--data", site.data, "--config", site.config, "--json").said
    [round_] = status["rounds"]
    assert (round_["state"], round_["done"]) == ("closed", list(STAGES)) and round_[
        "round_id"
    ].startswith("crawl_round.manual__20")
    captures = [json.loads(r) for r in facts(site.data)["captures"]]
    assert {
        c["url"]
        for c in captures
        if c["kind"] == "page" and c["outcome"] in ("fetched", "redirected")
    } == set(site.seeds)
    assert (
        list(site.data.glob("warc/**/*.warc.gz"))
        and (site.data / "report" / "index.html").stat().st_size > 1000
    )
    found = run("reconcile", "--data", site.data, "--config", site.config, "--json")
    assert found.code == 0 and found.said["records"] == found.said["captures"] > 0
    events = site.airflow.get("assets/events?limit=100")["asset_events"]
    assert {e["name"] for e in events if e["source_run_id"] == run_id} == {
        f"crawlkit.{name}" for names in written().values() for name in names
    }
    assert all(
        e["extra"]["data"] == str(site.data) and e["extra"]["round_id"] == round_["round_id"]
        for e in events
    )


@pytest.mark.slow
@pytest.mark.usefixtures("crawled")
def test_a_round_brings_its_proof_about(site):
    end = time.monotonic() + ROUND_S
    while (
        not (
            runs := [
                r
                for r in site.airflow.get("dags/data_quality/dagRuns")["dag_runs"]
                if r["state"] in ("success", "failed")
            ]
        )
        and time.monotonic() < end
    ):
        time.sleep(1)
    site.airflow.pause("data_quality")
    assert [(r["run_type"], r["state"]) for r in runs] == [("asset_triggered", "success")]
    assert site.states("data_quality", runs[0]["dag_run_id"]) == dict.fromkeys(
        ("crawls", "audit", "reconcile", "tables", "alerts"), "success"
    )


@pytest.mark.parametrize(
    ("dag_id", "conf", "names"),
    [
        ("crawl_round", {"seeds": ["ftp://a.example/"]}, "seeds"),
        ("crawl_round", {"seeds": "http://a.example/"}, "seeds"),
        ("crawl_round", {"minutes": 0}, "minutes"),
        ("crawl_round", {"minutes": "soon"}, "minutes"),
        ("crawl_round", {"data": "relative"}, "data"),
        ("crawl_round", {"set": ["no-key"]}, "set"),
        ("crawl_round", {"priority": "very"}, "priority"),
        ("fast_round", {"max_urls": 1.5}, "max_urls"),
        ("operator_action", {"action": "explode"}, "action"),
        ("operator_action", {"action": "block", "host": "http://a.example/"}, "host"),
        ("operator_action", {"action": "boost", "points": 101}, "points"),
        ("operator_action", {"action": "pause", "round_id": "../x"}, "round_id"),
        ("daily_analysis", {"exports": ["everything"]}, "exports"),
    ],
)
def test_a_bad_form_value_is_refused_with_its_field(site, dag_id, conf, names):
    before = site.airflow.get(f"dags/{dag_id}/dagRuns")["total_entries"]
    answer = site.airflow.call(
        "POST", f"dags/{dag_id}/dagRuns", {"logical_date": None, "conf": conf}
    )
    assert 400 <= answer.status_code < 500, answer.text
    assert f"param {names}" in str(answer.json()["detail"])
    assert site.airflow.get(f"dags/{dag_id}/dagRuns")["total_entries"] == before
    with pytest.raises(AirflowError, match=f"param {names}"):
        site.airflow.trigger(dag_id, conf)


@pytest.mark.slow
@pytest.mark.usefixtures("crawled")
def test_what_no_form_can_see_fails_at_once_and_is_told(site):
    """Bad input to the product (exit 2): no second try, its message in the log, and the failure
    handed on.
    """
    for dag_id, task_id, conf, message in (
        (
            "crawl_round",
            "open",
            {"set": ["fetch.slotz=3"]},
            "unknown key fetch.slotz; did you mean fetch.slots?",
        ),
        ("operator_action", "give", {"action": "block"}, "HOST"),
        ("crawl_round", "open", {"minuts": 5}, "unknown field 'minuts'; did you mean minutes?"),
        ("operator_action", "give", {"action": "abandon", "round_id": "none"}, "none"),
    ):
        run_id = site.airflow.trigger(dag_id, conf)
        assert site.airflow.wait(dag_id, run_id, 120) == "failed"
        [task] = [t for t in site.airflow.tasks(dag_id, run_id) if t["task_id"] == task_id]
        assert (task["state"], task["try_number"]) == ("failed", 1)
        assert message in site.log(dag_id, run_id, task_id)
        end = time.monotonic() + 30
        while (
            not (told := [t for t in site.told() if t["run_id"] == run_id])
            and time.monotonic() < end
        ):
            time.sleep(0.5)
        assert [(t["event"], t["dag_id"], t["conf"]) for t in told] == [("failed", dag_id, conf)]


@pytest.mark.slow
@pytest.mark.usefixtures("crawled")
def test_an_order_is_given_once_and_only_checked_by_a_dry_run(site):
    def commands() -> list[dict]:
        return run("command", "list", "--data", site.data, "--config", site.config, "--json").said[
            "commands"
        ]

    order = {"action": "block", "host": "weather.example", "reason": "-asked to"}
    assert (
        site.whole("operator_action", order | {"dry_run": True}) == {"give": "success"}
        and commands() == []
    )
    run_id = site.airflow.trigger("operator_action", order)
    site.airflow.wait("operator_action", run_id, 120)
    site.airflow.call(
        "POST",
        "dags/operator_action/clearTaskInstances",
        {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True},
    )
    assert site.airflow.wait("operator_action", run_id, 120) == "success"
    [told] = commands()
    assert (told["verb"], told["target"], json.loads(told["arguments"])["reason"]) == (
        "block",
        "weather.example",
        "-asked to",
    )
    assert site.whole("operator_action", {"action": "unblock", "host": "weather.example"}) == {
        "give": "success"
    }


@pytest.mark.slow
@pytest.mark.usefixtures("crawled")
def test_the_other_dags_on_the_sample_crawl(site):
    assert set(site.whole("daily_analysis", {"exports": ["urls", "cdxj"]}).values()) == {"success"}
    assert (
        list((site.data / "export" / "urls").glob("date=*/urls.parquet"))
        and (site.data / "export" / "index.cdxj").stat().st_size
    )
    assert set(site.whole("maintenance").values()) == {"success"}
    assert set(site.whole("fast_round").values()) == {"success"}
    status = run("status", "--data", site.data, "--config", site.config, "--json").said
    assert all(r["state"] == "closed" for r in status["rounds"])


@pytest.mark.slow
@pytest.mark.usefixtures("crawled")
def test_a_finished_run_that_is_run_again_changes_nothing(site):
    run_id, _ = site.first
    before = everything(site.data)
    site.airflow.call(
        "POST",
        "dags/crawl_round/clearTaskInstances",
        {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True},
    )
    assert site.airflow.wait("crawl_round", run_id, ROUND_S) == "success"
    assert differences(before, everything(site.data)) == []


@pytest.mark.slow
def test_an_empty_crawl_has_nothing_due(site, tmp_path):
    run_id, state = site.round(data=str(tmp_path / "empty"))
    states = site.states("crawl_round", run_id)
    assert state == "success" and all(
        t["try_number"] <= 1 for t in site.airflow.tasks("crawl_round", run_id)
    )
    assert {s for s, state in states.items() if state == "skipped"} == {
        "inject",
        "fetch",
        "commit",
        "parse",
        "dedup",
        "rank",
    }
    assert {states[s] for s in ("open", "generate", "regions", "update", "report")} == {"success"}


@pytest.mark.slow
def test_a_dead_region_is_told_and_the_others_go_on(site, tmp_path):
    data, regions = (
        tmp_path / "crawl",
        'fetch.regions={"near": ["harbour.example", "courier.example"], "far": ["*"]}',
    )
    run("open", "--round-id", "crawl_round.far", "--data", data, "--config", site.config)
    crawl = Crawl(data, load_config(site.config))
    with crawl.driver_lock(crawl.round("crawl_round.far"), "far"):  # what holds it does nothing
        site.airflow.trigger(
            "crawl_round",
            {"data": str(data), "set": [regions], "seeds": site.seeds},
            dag_run_id="far",
        )
        assert site.airflow.wait("crawl_round", "far", ROUND_S) == "success"
    fetches = {
        t["rendered_map_index"]: (t["state"], t["try_number"])
        for t in site.airflow.tasks("crawl_round", "far")
        if t["task_id"] == "fetch"
    }
    assert fetches == {"near": ("success", 1), "far": ("failed", 4)}
    assert [(t["event"], t["task"]) for t in site.told() if t["run_id"] == "far"] == [
        ("failed", "fetch far")
    ]
    reasons = {
        (c["host"], c["reason"])
        for c in map(json.loads, facts(data)["captures"])
        if c["kind"] == "page"
    }
    assert reasons == {("harbour.example", None), ("courier.example", None)} | {
        (h, "slot_lost") for h in ("orchard.example", "mirror.museum.example", "weather.example")
    }


SLEEPER = """
import subprocess
from datetime import timedelta
from airflow.sdk import DAG, task
from crawlkit_forms import crawl_fields
from crawlkit_tasks import Stage, dag_settings

settings = dag_settings("sleeper", None, timedelta(seconds=1), timedelta(seconds=30))
with DAG(**settings, params=crawl_fields()):
    @task
    def asleep():
        subprocess.run(["sleep", "987.25"])
    asleep()
    Stage(task_id="stage", stage="sleeper")
"""


@pytest.mark.slow
def test_a_late_run_is_told_and_an_endless_one_ended_with_its_processes(installed, tmp_path):
    for name in (".venv", ".venv-airflow", "dist"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "airflow_dags", tmp_path / "airflow_dags")
    (tmp_path / "airflow_dags" / "sleeper.py").write_text(SLEEPER)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "sleeper.py").write_text("import time\ntime.sleep(987)\n")

    def left() -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = entry.read_text(errors="replace").split("\0")
                found += (
                    [" ".join(words)]
                    if words[:2] == ["sleep", "987.25"]
                    or str(tmp_path / "jobs" / "sleeper.py") in words
                    else []
                )
        return found

    told = tmp_path / "told.jsonl"
    with LocalAirflow(
        tmp_path / "airflow", {"CRAWLKIT_ON_FAILURE": f"tee -a {told}"}, home=tmp_path
    ) as airflow:
        run_id = airflow.trigger("sleeper", {})
        end = time.monotonic() + 25
        while len(left()) < 3 and time.monotonic() < end:  # sleep, the JVM, the driver
            time.sleep(0.2)
        assert len(left()) >= 3
        assert airflow.wait("sleeper", run_id, 120) == "failed"
        end = time.monotonic() + 60
        while (left() or len(told.read_text().splitlines()) < 2) and time.monotonic() < end:
            time.sleep(0.5)
        assert left() == []
        rows = [json.loads(line) for line in told.read_text().splitlines()]
        assert [(r["event"], r["dag_id"], r["run_id"], r["reason"]) for r in rows] == [
            ("late", "sleeper", run_id, ""),
            ("failed", "sleeper", run_id, "timed_out"),
        ]


def fetch_process(data: Path) -> int | None:
    """The spark-submit process (its JVM) of the fetch job on a crawl."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if (
            words[0].endswith("java")
            and any(w.endswith("/jobs/fetch.py") for w in words)
            and str(data) in words
        ):
            return int(entry.name)
    return None


@pytest.mark.slow
def test_a_task_killed_in_mid_fetch_ends_in_the_same_tables(site, tmp_path):
    """The whole tree of the task, Airflow's own process for it too, is killed by kill -9; Airflow
    tries again.
    """
    seeds = sorted(WEB.pages)
    (tmp_path / "seeds.txt").write_text("\n".join(seeds) + "\n")
    run_id, data = "killed", tmp_path / "killed"
    with Server(WEB, tmp_path / "web.jsonl") as server:
        config = settings(WEB, server, tmp_path, **{"scope.max_depth": 0})
        site.airflow.trigger(
            "crawl_round",
            {"data": str(data), "config": str(config), "seeds_file": str(tmp_path / "seeds.txt")},
            dag_run_id=run_id,
            run_after=datetime.fromtimestamp(EPOCH, UTC).isoformat(),
        )
        end = time.monotonic() + ROUND_S
        while len(load_log(tmp_path / "web.jsonl")) < 60 or (java := fetch_process(data)) is None:
            assert time.monotonic() < end
            time.sleep(0.1)
        task = int((Path("/proc") / str(java) / "stat").read_text().rsplit(")", 1)[1].split()[1])
        tree = below(task)
        assert len(tree) >= 4  # Airflow's task, JVM, driver, Python workers
        for pid in tree:
            os.kill(pid, signal.SIGKILL)
        asked = len(load_log(tmp_path / "web.jsonl"))
        assert site.airflow.wait("crawl_round", run_id, ROUND_S) == "success"
        tries = {t["task_id"]: t["try_number"] for t in site.airflow.tasks("crawl_round", run_id)}
        assert tries["fetch"] == 2 and {n for s, n in tries.items() if s != "fetch"} == {1}
        log = load_log(tmp_path / "web.jsonl")
        assert 60 <= asked < len(log)
        pace = load_config(config).politeness
        found = judge(log, WEB, Delays(host_s=pace.delay_s, domain_s=pace.domain_delay_s))
        found.address_gap.clear()  # no host's address is known before the first round
        assert found.total == 0, str(found)
    with Server(WEB, tmp_path / "unkilled.jsonl") as server:
        name, folder = f"crawl_round.{run_id}", tmp_path / "whole"
        folder.mkdir()
        common = (
            "--data",
            folder / "crawl",
            "--config",
            settings(WEB, server, folder, **{"scope.max_depth": 0}),
            "--round-id",
            name,
            "--now",
            f"{EPOCH:.0f}",
            "--json",
        )
        assert (
            run("inject", "--seeds", tmp_path / "seeds.txt", "--priority", "high", *common).code
            == 0
        )
        assert run("round", *common).code == 0
    assert differences(facts(folder / "crawl"), facts(data)) == []
