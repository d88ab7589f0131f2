"""Every stage by spark-submit, the package as a zip, on executors that are processes of their own
(REQUIREMENTS M2).
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from crawlkit.config import load_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import ROUND, Job
from crawlkit.rules.url.domains import registered_domain
from crawlkit.runtime.jars import jar_folder, s3_jar_folder

from tests.fakeweb import EPOCH, Server
from tests.rounds.crawlproc import ROOT, Done, differences, facts, settings, steady_web

pytestmark = [pytest.mark.spark, pytest.mark.rounds, pytest.mark.slow]
WEB = steady_web()
MASTER = (  # two executors of one core: own JVMs, own Python workers, own folders
    "local-cluster[2,1,1024]"
)


def submit(package: Path, folder: Path, stage: str, *args: object, jars: str = "--jars") -> Done:
    """The command of docs/spark-submit.md, from a folder without the package and with relative
    paths.
    """
    found = sorted(map(str, [*jar_folder().glob("delta-*.jar"), *s3_jar_folder().glob("*.jar")]))
    by = (
        ["--jars", ",".join(found)]
        if jars == "--jars"
        else [
            w
            for side in ("driver", "executor")
            for w in ("--conf", f"spark.{side}.extraClassPath={jar_folder()}/*")
        ]
    )
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")} | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # four JVMs on the cores of a small machine
    by += ["--driver-java-options", quick, "--conf", f"spark.executor.extraJavaOptions={quick}"]
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-submit"),
            "--master",
            MASTER,
            "--py-files",
            str(package / "dist" / "crawlkit.zip"),
            *by,
            str(package / "jobs" / f"{stage}.py"),
            *map(str, args),
        ],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_the_zip_holds_the_whole_package(package):
    with zipfile.ZipFile(package / "dist" / "crawlkit.zip") as z:
        names = set(z.namelist())
    have = {
        p.relative_to(ROOT / "lib").as_posix()
        for p in (ROOT / "lib" / "crawlkit").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert {n for n in names if not n.endswith("/")} == have


def test_every_stage_has_a_job():
    assert {p.stem for p in (ROOT / "jobs").glob("*.py")} == {"inject", *ROUND, "maintain"}


def test_fetch_on_a_cluster(spark, package, tmp_path):
    """The stage whose work is all done on the executors; the stages around it here."""
    with Server(WEB, tmp_path / "web.jsonl") as server:
        config = settings(WEB, server, tmp_path, **{"scope.max_depth": 0})
        job = Job(Crawl(tmp_path / "crawl", load_config(config)), quick=True, spark=spark)
        round_ = job.crawl.open_round(EPOCH)
        job.run("inject", round_, lines=sorted(WEB.pages))
        planned = job.run("generate", round_)["planned"]
        done = submit(
            package,
            tmp_path,
            "fetch",
            "--data",
            "crawl",
            "--config",
            "crawl.yaml",
            "--json",
            jars="extraClassPath",
        )
        assert done.code == 0, done.err[-3000:]
        assert done.said["planned"] == planned and done.said["slots"] == 2
        counts = job.run("commit", round_)
        assert counts["rows_out"] == planned and not any(
            "slot_lost" in o for o in counts["outcomes"]
        )


def test_bad_input_is_one_message(package, tmp_path):
    done = submit(package, tmp_path, "fetch", "--data", "crawl", "--set", "fetch.slotz=3")
    said = done.out + done.err  # spark-submit sends both of Python's streams to its standard output
    assert done.code == 2 and "Traceback" not in said
    assert [line for line in said.splitlines() if line.startswith("crawlkit: ")] == [
        "crawlkit: --set: unknown key fetch.slotz; did you mean fetch.slots?"
    ]


@pytest.mark.slow
def test_a_round_of_submitted_stages_is_that_of_one_process(spark, package, tmp_path):
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(sorted(WEB.pages)) + "\n")
    with Server(WEB, tmp_path / "web.jsonl") as server:
        # a first command would write the scope of its seeds: said here for both
        domains = sorted({registered_domain(urlsplit(url).hostname or "") for url in WEB.pages})
        scope = {"scope.max_depth": 0, "scope.domains": domains}
        config = settings(WEB, server, tmp_path, **scope)
        job = Job(Crawl(tmp_path / "one", load_config(config)), quick=True, spark=spark)
        round_ = job.crawl.open_round(EPOCH)
        job.run("inject", round_, lines=sorted(WEB.pages))
        for stage in ROUND:
            job.run(stage, round_)
        for stage in ("inject", *ROUND):
            extra = ["--seeds", "seeds.txt"] if stage == "inject" else []
            done = submit(
                package,
                tmp_path,
                stage,
                "--data",
                "crawl",
                "--config",
                "crawl.yaml",
                "--now",
                f"{EPOCH:.0f}",
                "--json",
                *extra,
            )
            assert done.code == 0, (stage, done.err[-3000:])
        assert differences(facts(tmp_path / "one"), facts(tmp_path / "crawl")) == []
        done = submit(
            package, tmp_path, "maintain", "--data", "crawl", "--config", "crawl.yaml", "--json"
        )
        assert done.code == 0, done.err[-3000:]
        assert (
            differences(
                facts(tmp_path / "one"),
                facts(tmp_path / "crawl") | {"fetchlist": facts(tmp_path / "one")["fetchlist"]},
            )
            == []
        )
