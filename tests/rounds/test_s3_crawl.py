"""A whole crawl in S3, its Delta tables too: every test of the known answer on s3a, killed drivers,
two at once, every command; against moto, and against versitygw where it is there.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter

import boto3
import pytest
from crawlkit.runtime.jars import s3_jar_folder
from crawlkit.upkeep.maintain import maintain

from tests.fakeweb import EPOCH, load_log
from tests.rounds.crawlproc import differences as row_differences, facts, run
from tests.rounds.known_crawl import known
from tests.rounds.s3_world import NEEDS_S3_JARS, S3World, go, s3_server
from tests.rounds.test_kills import ROUND_ID, WHO, ended, most_asked, wait_for
from tests.rounds.test_known_answer import *  # noqa: F403  (its tests, on the crawl that the fixture `crawled` of this module makes)
from tests.rounds.test_submit import submit
from tests.servers.fault_proxy import apart
from tests.servers.s3_server import moto, new_bucket, versitygw

pytestmark = [pytest.mark.rounds, pytest.mark.slow, NEEDS_S3_JARS]


@pytest.fixture(scope="module", params=["moto", "versitygw"])
def endpoint(request, tmp_path_factory):
    with s3_server(request.param, tmp_path_factory.mktemp("gateway")) as url:
        yield url


# -- killed, doubled -------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(2))
def test_drivers_killed_at_random_moments(on, endpoint, on_a_folder, tmp_path, seed):
    """Three kills -9 of the driver, each at a moment drawn from the round, then it is let
    through.
    """
    rng, killed = random.Random(seed), []
    with S3World(on, tmp_path, endpoint) as w:
        for _ in range(3):
            stage, pause_s = (
                rng.choice(["generate", "fetch", "fetch", "commit", "parse", "dedup", "update"]),
                rng.uniform(0, 3),
            )
            process = w.start()
            order = [
                "generate",
                "fetch",
                "commit",
                "parse",
                "dedup",
                "update",
                "rank",
                "report",
                "close",
            ]
            assert wait_for(lambda: order.index(w.stage()) >= order.index(stage), process)
            time.sleep(pause_s)
            killed.append(w.stage())
            assert process.poll() is None, ended(process).err
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            w.was_never_half(on_a_folder)
        print("killed in", *killed)
        assert (done := w.again()).code == 0, done.err
        w.is_sound(on, on_a_folder)


@pytest.mark.parametrize("seed", range(int(os.environ.get("CRAWLKIT_KILL_RUNS", 2))))
@pytest.mark.parametrize("victim", ["driver", "executor"])
def test_killed_in_fetch_and_commit_while_the_store_fails(
    on, endpoint, on_a_folder, tmp_path, victim, seed
):
    """Two kills -9, one in fetch and one in commit, of a crawl whose store fails 5% of its calls;
    then it is let through, the store as bad as before.
    """
    rng, killed, faults, runs = random.Random(f"{victim}{seed}"), [], Counter(), 0
    with (
        apart(endpoint, 0.05, seed, faults) as failing,
        S3World(
            on,
            tmp_path,
            endpoint,
            **({"spark.master": "local-cluster[2,1,1024]"} if victim == "executor" else {}),
        ) as w,
    ):
        good, bad = w.config, w.config.with_name("failing.yaml")
        bad.write_text(good.read_text().replace(endpoint, failing))

        def start() -> subprocess.Popen[str]:
            w.config = bad
            process, w.config = w.start(), good
            return process

        process = None
        for stage in ("fetch", "commit"):
            if process is None or process.poll() is not None:
                process, runs = start(), runs + 1
            asked = len(w.log(0)) + rng.randrange(1, 100)
            wait_for(
                lambda: (
                    w.stage() not in ("generate", "fetch")
                    if stage == "commit"
                    else len(w.log(0)) >= asked or w.stage() not in ("generate", "fetch")
                ),
                process,
            )
            time.sleep(rng.uniform(0, 2) if stage == "commit" else 0)
            victims = WHO[victim](process.pid)
            if victims and process.poll() is None:
                killed.append(w.stage())
                os.kill(rng.choice(victims), signal.SIGKILL)
            if victim == "driver":
                assert process.wait(300) in (0, 1, -signal.SIGKILL)
        done = ended(process)
        assert done.code in (0, 1, -signal.SIGKILL) and "Traceback" not in done.err, done.err
        while (
            done.code != 0
            # the store may fail more often than a call is tried again: then it is said, and the
            # same
            # command goes on
        ):
            runs += 1
            assert runs < 10, done.err
            assert done.code != 1 or done.err.splitlines()[-1].startswith("crawlkit: "), done.err
            done = ended(start())
        w.is_sound(on, on_a_folder)
        maintain(w.job(on), time.time() + 86_400)
        assert list(w.job(on).crawl.warc.unfinished()) == []
        assert run("reconcile", "--data", w.data, "--config", w.config, "--json").said["ok"]
    print(
        f"{victim} {seed}: killed in",
        *killed,
        f"; {runs} runs; of {faults.pop('calls')} calls failed:",
        dict(sorted(faults.items())),
    )


@pytest.mark.parametrize(
    "point,n",
    [("in a file", 5), ("before a commit", 4), ("after a commit", 6), ("before a mark", 2)],
)
def test_killed_between_files_commits_and_marks(on, endpoint, on_a_folder, tmp_path, point, n):
    with S3World(on, tmp_path, endpoint) as w:
        first = ended(w.start(**w.kill_at(point, n)))
        assert first.code in (0, 1, -signal.SIGKILL) and (tmp_path / f"{point} 0" / str(n)).exists()
        w.was_never_half(on_a_folder)
        assert first.code == 0 or (done := w.again()).code == 0, done.err
        w.is_sound(on, on_a_folder)


def test_two_drivers_of_one_round(on, endpoint, on_a_folder, tmp_path):
    with S3World(on, tmp_path, endpoint) as w:
        both = [ended(p) for p in [w.start(), w.start()]]
        assert sorted(d.code for d in both) in ([0, 0], [0, 3]), [d.err for d in both]
        assert most_asked(w.log()) == 1
        w.is_sound(on, on_a_folder)


def test_two_rounds_at_once(on, endpoint, on_a_folder, tmp_path):
    """The second takes what the first has not claimed: nothing is planned by both."""
    with S3World(on, tmp_path, endpoint, **{"frontier.buckets_per_round": 4}) as w:
        both = [
            ended(p)
            for p in (
                w.start("round", "--round-id", ROUND_ID),
                w.start("round", "--round-id", "other"),
            )
        ]
        assert sorted(d.code for d in both) in ([0, 0], [0, 3]), [d.err for d in both]
        for _ in range(3):
            assert (
                done := run(
                    "round",
                    "--data",
                    w.data,
                    "--config",
                    w.config,
                    "--now",
                    f"{EPOCH:.0f}",
                    "--json",
                )
            ).code == 0, done.err
        assert most_asked(w.log()) == 1
        mine = facts(w.data)
        for name in ("crawldb", "ranks", "hostdb"):
            assert row_differences({name: on_a_folder[name]}, {name: mine[name]}) == []
        w.is_polite(w.job(on).cfg)


def test_a_frozen_driver_wakes_after_another_has_taken_its_round(
    on, endpoint, on_a_folder, tmp_path
):
    """Its leases have run out and all is done: it changes nothing more."""
    with S3World(on, tmp_path, endpoint) as w:
        first = w.start()
        assert wait_for(lambda: len(load_log(tmp_path / "web.jsonl")) > 40, first)
        os.kill(
            first.pid, signal.SIGSTOP
        )  # its JVM and workers go on: the fetch is theirs until it is done
        for _ in range(8):
            if (done := w.again()).code == 0:
                break
            assert done.code == 3 and "held by another process" in done.err, done.err
        assert done.code == 0, done.err
        asked = len(w.log())
        os.kill(first.pid, signal.SIGCONT)
        late = ended(first)
        assert late.code == 0 or late.err.splitlines()[-1].startswith("crawlkit: "), late.err
        assert len(w.log()) == asked
        w.is_sound(on, on_a_folder)


def test_submitted_stages(on, package, endpoint, on_a_folder, tmp_path):
    """The JARs by --jars, the tables read and written by executors of their own."""
    with S3World(on, tmp_path, endpoint) as w:
        job = w.job(on)
        round_ = job.crawl.round(ROUND_ID)
        for stage in ("generate", "fetch"):
            job.run(stage, round_)
        for stage in ("commit", "parse"):
            done = submit(
                package, tmp_path, stage, "--data", w.data, "--config", w.config, "--json"
            )
            assert done.code == 0, (done.out + done.err)[-3000:]
        go(job)
        w.is_sound(on, on_a_folder)


# -- the commands ----------------------------------------------------------------------
def test_every_command_takes_a_crawl_in_s3(on, endpoint, on_a_folder, tmp_path):
    with S3World(on, tmp_path, endpoint) as w:
        job = w.job(on)
        go(job)
        url = next(
            r["url"]
            for r in job.tables.rows("crawldb", ["url", "state"])
            if r["state"] == "fetched"
        )

        def told(*args: object, code: int = 0) -> dict:
            done = run(*args, "--data", w.data, "--config", w.config, "--json")
            assert done.code == code, done.err
            return done.said

        states = {r["state"] for r in job.tables.rows("crawldb", ["state"])}
        assert set(told("status")["states"]) == states
        assert {
            r["state"] for r in told("sql", "SELECT DISTINCT state FROM frontier")["rows"]
        } == states
        assert told("audit")["violations"] == 0
        assert told("explain", url)["canonical"] == url
        assert told("recrawl", url)["queued"] == 1
        assert told("command", "list")["commands"][0]["target"] == url
        assert told("export", "cdxj", "--out", tmp_path / "index.cdxj")["lines"] > 100
        assert told("export", "urls", "--out", tmp_path / "urls")["urls"] == job.tables.count(
            "crawldb"
        )
        assert told("export", "wacz", "--out", tmp_path / "one.wacz")["records"] > 100
        assert told("export", "wet", "--out", tmp_path / "wet")["records"] > 10
        assert told("export", "cc-index")["table"].startswith("s3://")
        assert told("reconcile")["ok"]
        assert told("maintain")["tables_bytes"]["crawldb"] > 0
        assert (
            "nothing_due" in told("round", "--now", f"{EPOCH + 1:.0f}") and most_asked(w.log()) == 2
        )
        refused = run("export", "wet", "--data", w.data, "--config", w.config)
        assert refused.code == 2 and "give --out PATH" in refused.err
        page = boto3.client("s3").get_object(
            Bucket=w.data.split("/")[2], Key=f"{tmp_path.name}/report/index.html"
        )
        assert (
            page["ContentType"].startswith("text/html") and b"Crawl report" in page["Body"].read()
        )


def test_upkeep_takes_a_crawl_in_s3(on, endpoint, tmp_path):
    """Purge, rebuild, import, retention, rebucket, the looks without a JVM, and the crawl made
    again from its WARC files under another prefix.
    """
    with S3World(on, tmp_path, endpoint) as w:
        job = w.job(on)
        go(job)

        def told(*args: object, code: int = 0, data: str = w.data, **sets: object) -> dict:
            done = run(
                *args,
                "--data",
                data,
                "--config",
                w.config,
                *(
                    word
                    for k, v in sets.items()
                    for word in ("--set", f"{k.replace('__', '.')}={v}")
                ),
                "--json",
            )
            assert done.code == code, done.err
            return done.said

        def known() -> dict:
            return {
                r["url"]: r
                for r in job.tables.rows(
                    "crawldb", "url state depth last_status n_fetch body_sha256 text_sha256".split()
                )
            }

        states = Counter(r["state"] for r in known().values())
        assert (
            {
                r["state"]: r["n"]
                for r in told(
                    "sql",
                    "SELECT state, count(*) AS n FROM frontier GROUP BY 1",
                    "--engine",
                    "duckdb",
                )["rows"]
            }
            == states
            == told("status")["states"]
        )
        assert {r["host"] for r in told("hosts")["rows"]} == {
            r["host"] for r in job.tables.rows("hostdb", ["host"])
        }
        assert {r["outcome"] for r in told("errors")["rows"]} >= {"failed", "http_error"}
        assert {r["group"] for r in told("diff", ROUND_ID, ROUND_ID)["rows"]} >= {
            "totals",
            "outcomes",
            "links",
        }
        assert told("params")["rows"] == [] and told("alerts")["alerts"]
        assert run("metrics", "--data", w.data, "--config", w.config).out.startswith("# ")
        url = next(u for u, r in known().items() if r["state"] == "fetched")
        host = url.split("/")[2]
        assert told("fetch-one", url)["status"] == 200
        assert told("export", "cdxj", "--zipnum", 100, "--out", tmp_path / "zip")["blocks"] > 1
        for export in ("wat", "pages", "hostgraph"):
            told("export", export, "--out", tmp_path / export)
        was = known()
        told("rebuild")
        assert known() == was
        again = told(
            "rebuild", "--from-warc", data=f"{w.data}-again", storage__warc=f"{w.data}/warc"
        )
        assert again["states"]["fetched"] == states["fetched"] and again["lost"] == 0
        dry = told("purge", host, "--dry-run")
        assert dry["captures"] > 0 and job.tables.rows("captures", ["url"], {"host": [host]})
        told("purge", host, "--reason", "asked to")
        assert {
            (r["outcome"], r["warc_filename"])
            for r in job.tables.rows("captures", ["outcome", "warc_filename"], {"host": [host]})
        } == {("refused", None)}
        assert not job.tables.rows("pages", ["url"], {"host": [host]}) and told("reconcile")["ok"]
        (tmp_path / "urls.txt").write_text(f"http://new.example/\n{url}\n")
        assert told("import", "urls", tmp_path / "urls.txt")["added"] == 1
        assert told("round", "--now", f"{EPOCH + 1:.0f}")["rounds"]
        assert (
            told("maintain", "--now", f"{time.time() + 91 * 86_400:.0f}", maintain__raw_share=0.0)[
                "expired"
            ]["removed"]["records"]
            >= 0
        )
        assert told("reconcile")["ok"]
        assert told("rebucket", 16)["buckets"] == 16
        assert sum(told("status", frontier__buckets=16)["states"].values()) == len(known())


def _lack_jars(w, none):
    """What Spark says without the JARs for S3, and doctor of them."""
    none.mkdir()
    for jar in s3_jar_folder().parent.glob("*.jar"):
        (none / jar.name).symlink_to(jar)
    done = run("round", "--data", w.data, "--config", w.config, env={"CRAWLKIT_JARS": str(none)})
    assert done.code == 2 and "make setup-s3" in done.err and "Traceback" not in done.err
    looked = run(
        "doctor",
        "--data",
        w.data,
        "--config",
        w.config,
        "--json",
        env={"CRAWLKIT_JARS": str(none)},
    )
    assert "jars for S3" in looked.said["missing"] and looked.code == 2
    looked = run("doctor", "--data", w.data, "--config", w.config, "--json")
    checks = {c["check"]: c for c in looked.said["checks"]}
    assert (
        checks["jars for S3"]["ok"]
        and checks["object store storage.tables"]["ok"]
        and checks["object store storage.state"]["ok"]
    )


def test_what_is_missing_is_named(on, endpoint, tmp_path):
    with S3World(on, tmp_path, endpoint) as w:
        if "spark" in on:
            _lack_jars(w, tmp_path / "jars")
        for place, word in (
            ("s3a://", "expected a folder or s3://bucket/prefix"),
            ("s3a://no-such-bucket/x", "create the bucket"),
            ("ftp://x/y", "expected a folder or s3://bucket/prefix"),
        ):
            done = run("status", "--data", place, "--config", w.config)
            assert done.code == 2 and word in done.err and "Traceback" not in done.err, done.err


# -- the known answer ------------------------------------------------------------------
@pytest.fixture(scope="module", params=["moto", "versitygw"])
def crawled(request, on, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    server = moto() if request.param == "moto" else versitygw(folder / "gateway")
    with server as url:
        bucket = new_bucket(url)
        sets = (f"s3.endpoint_url={url}", "s3.path_style=true")
        yield known(on, folder, f"s3a://{bucket}/known", sets)
