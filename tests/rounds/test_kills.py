"""Killed, frozen, doubled and repeated: the tables end as those of a crawl that nothing happened to
(REQUIREMENTS N1, N2).

One round over a web of 15 hosts: all its pages are seeds, so every feature is met. The crawler runs
as a process of its own (`crawlkit round`); the web's server outlives it, and its log is judged over
all attempts together.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from crawlkit.config import Config, load_config
from crawlkit.crawl.state import Crawl
from crawlkit.round.job import ROUND, Job
from deltalake import DeltaTable

from tests.engines import SPARK
from tests.fakeweb import EPOCH, Delays, Server, counts, judge, load_log
from tests.rounds.crawlproc import (
    FIXED,
    ROOT,
    Done,
    command,
    differences,
    environment,
    everything,
    facts,
    rows,
    run,
    settings,
    steady_web,
    table_place,
)

pytestmark = [pytest.mark.rounds, pytest.mark.slow]
ROUND_ID = "r000001"
WEB = steady_web()


class World:
    """A folder with the seeds injected, its web and its configuration."""

    def __init__(self, folder: Path, seeded: Path | None, **changes: object) -> None:
        self.folder, self.data = folder, folder / "crawl"
        if seeded is not None:
            shutil.copytree(seeded, self.data)
        self.server = Server(WEB, folder / "web.jsonl")
        self.config = settings(WEB, self.server, folder, **{"scope.max_depth": 0, **changes})
        self.started: list[subprocess.Popen[str]] = []

    def job(self, on) -> Job:
        return Job(Crawl(self.data, load_config(self.config)), quick=True, **on)

    def start(self, *args: object, **env: str) -> subprocess.Popen[str]:
        """`crawlkit round` in a session of its own, so that all its processes are known."""
        self.started.append(
            subprocess.Popen(
                command(
                    *(args or ("round", "--round-id", ROUND_ID)),
                    "--data",
                    self.data,
                    "--config",
                    self.config,
                    "--now",
                    f"{EPOCH:.0f}",
                    "--json",
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment(**env),
                start_new_session=True,
            )
        )
        return self.started[-1]

    def kill_at(self, point: str, n: int) -> dict[str, str]:
        """The environment of a run whose nth process to pass a point kills itself
        (tests/data/killpoints).
        """
        counted = self.folder / f"{point} {len(self.started)}"
        counted.mkdir()
        print(f"killed {point}, the {n}th, from {self.stage()}")
        return {
            "PYTHONPATH": os.pathsep.join(
                map(str, (ROOT / "tests" / "data" / "killpoints", ROOT / "lib"))
            ),
            "KILL": f"{point}:{n}:{counted}",
        }

    def to_parse(self, on) -> None:
        """The rerun up to parse as another driver in this process, whose JVM is warm; later stages
        read nothing else.
        """
        job = self.job(on)
        round_ = job.crawl.round(ROUND_ID)
        with job.driving(round_):
            for stage in ("fetch", "commit", "parse"):
                job.run(stage, round_)

    def again(self) -> Done:
        return run(
            "round",
            "--round-id",
            ROUND_ID,
            "--data",
            self.data,
            "--config",
            self.config,
            "--now",
            f"{EPOCH:.0f}",
            "--json",
        )

    def log(self, settle_s: float = 0.3) -> list:
        time.sleep(settle_s)
        return load_log(self.folder / "web.jsonl")

    def is_sound_to_parse(self, on, unkilled: dict) -> None:
        names = ("fetchlist", "captures", "pages", "links")
        mine = facts(self.data)
        assert differences({n: unkilled[n] for n in names}, {n: mine[n] for n in names}) == []
        self.is_polite(self.job(on).cfg)

    def is_sound(self, on, unkilled: dict) -> None:
        """The tables are the unkilled crawl's, at no time had a reader seen another state of one;
        the round is over, the server saw no rudeness.
        """
        assert differences({n: unkilled[n] for n in FIXED}, facts(self.data)) == []
        self.was_never_half(unkilled)
        crawl = self.job(on).crawl
        assert crawl.round(ROUND_ID).state == "closed" and crawl.claims() == {}
        self.is_polite(crawl.cfg)

    def was_never_half(self, unkilled: dict) -> None:
        """Every version of every table is one that the unkilled crawl had too."""
        for name, wanted in unkilled["versions"].items():
            for n, version in enumerate(versions(self.data, name)):
                assert version in wanted, (
                    name,
                    n,
                    differences({name: unkilled[name]}, {name: version}),
                )

    def stage(self) -> str:
        """The stage that is to be done or under way."""
        crawl = Crawl(self.data, load_config(self.config))
        return next((s for s in ROUND if crawl.mark(crawl.round(ROUND_ID), s) is None), "close")

    def is_polite(self, cfg: Config) -> None:
        found = judge(
            self.log(),
            WEB,
            Delays(host_s=cfg.politeness.delay_s, domain_s=cfg.politeness.domain_delay_s),
        )
        # a floor within one task, and no host's address is known before the first round
        found.address_gap.clear()
        assert found.total == 0, str(found)

    def __enter__(self) -> World:
        self.server.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.started:
            for pid in processes(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()
        self.server.__exit__(*exc)


def processes(root: int, word: str = "") -> list[int]:
    """Living processes of a session, or below a process, whose command line has the word; oldest
    first.
    """
    out, inside = [], {root}
    for pid in sorted(int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError, IndexError):
            state, parent, _, session = (
                Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:4]
            )
            if session == str(root) or int(parent) in inside:
                inside.add(pid)
                if state != "Z" and word in Path(f"/proc/{pid}/cmdline").read_bytes().replace(
                    b"\0", b" "
                ).decode("utf-8", "replace"):
                    out.append(pid)
    return out


def workers(root: int) -> list[int]:
    """Python workers: those that Spark's daemons or the local engine's server forked."""
    servers = processes(root, "crawlkit.engine.worker_main")
    daemons = processes(root, "pyspark.daemon") + servers
    return [pid for pid in daemons if parent(pid) in daemons]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def children_of_workers(root: int) -> list[int]:
    """The processes in which workers of the local engine parse pages."""
    server = processes(root, "crawlkit.engine.worker_main")[:1]
    return [pid for pid in workers(root) if parent(pid) not in server]


def wait_for(
    what: Callable[[], object], process: subprocess.Popen[str] | None = None, seconds: float = 240.0
) -> bool:
    """Wait until something is so; False if the process ended before."""
    give_up = time.monotonic() + seconds
    while not what():
        if process is not None and process.poll() is not None:
            return False
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return True


def most_asked(log: list) -> int:
    """How often the page that was answered most often was."""
    return max(n for url, n in counts(log).items() if not url.endswith("/robots.txt"))


def versions(data: Path | str, table: str) -> list:
    """The fixed columns of all versions of a table."""
    place = table_place(data, table)
    return (
        [facts(data, {table: n})[table] for n in range(DeltaTable(place).version() + 1)]
        if DeltaTable.is_deltatable(place)
        else []
    )


def ended(process: subprocess.Popen[str], timeout: float = 300.0) -> Done:
    out, err = process.communicate(timeout=timeout)
    return Done(process.returncode, out, err)


@pytest.fixture(scope="module")
def seeded(on, tmp_path_factory) -> Path:
    """A crawl's folder with all pages of the web injected into its first, open round."""
    folder = tmp_path_factory.mktemp("seeded")
    with World(folder, None) as w:
        job = w.job(on)
        job.run("inject", job.crawl.open_round(EPOCH), lines=sorted(WEB.pages))
    return w.data


@pytest.fixture(scope="module")
def planned(on, seeded, tmp_path_factory) -> Path:
    """The same with its fetch list."""
    with World(tmp_path_factory.mktemp("planned"), seeded) as w:
        job = w.job(on)
        job.run("generate", job.crawl.round(ROUND_ID))
    return w.data


@pytest.fixture(scope="module")
def unkilled(on, seeded, tmp_path_factory) -> Iterator[tuple[World, dict]]:
    """The round without any trouble, all its stages run again at its end, and what the
    tables hold.
    """
    with World(tmp_path_factory.mktemp("unkilled"), seeded) as w:
        job = w.job(on)
        round_ = job.crawl.round(ROUND_ID)
        for stage in ROUND:
            job.run(stage, round_)
        w.requests = len(w.log())
        w.again_at_the_end = {
            stage: _repeat(job, round_, stage, **_options(stage)) for stage in ("inject", *ROUND)
        }
        job.crawl.close(round_)
        yield w, facts(w.data) | {"versions": {name: versions(w.data, name) for name in FIXED}}


@pytest.fixture(scope="module")
def fetched(on, planned, tmp_path_factory) -> dict:
    """What the tables hold after an unkilled parse."""
    with World(tmp_path_factory.mktemp("fetched"), planned) as w:
        w.to_parse(on)
        return facts(w.data)


@pytest.fixture(scope="module")
def committed(on, planned, tmp_path_factory) -> Path:
    """The round up to parse, which is next."""
    with World(tmp_path_factory.mktemp("committed"), planned) as w:
        job = w.job(on)
        for stage in ("fetch", "commit"):
            job.run(stage, job.crawl.round(ROUND_ID))
    return w.data


@pytest.fixture(scope="module")
def parsed(on, committed, tmp_path_factory) -> dict:
    """What parse counts and what the tables hold after it."""
    with World(tmp_path_factory.mktemp("parsed"), committed) as w:
        job = w.job(on)
        counts = job.run("parse", job.crawl.round(ROUND_ID))
        return {"counts": counted(counts), "tables": parse_tables(w.data)}


def counted(mark: dict) -> dict:
    return {
        k: v
        for k, v in mark.items()
        if k not in ("stage", "started", "ended", "cpu_s", "memory_bytes", "round_id", "repeated")
    }


def parse_tables(data: Path) -> dict:
    """All columns of what parse writes."""
    return {name: rows(data, name) for name in ("pages", "links", "rejects", "crawldb_log")}


def _options(stage: str) -> dict[str, object]:
    return {"lines": sorted(WEB.pages)} if stage == "inject" else {}


def _repeat(job: Job, round_, stage: str, **options: object) -> list[str]:
    """What a forced repeat of the stage changes in the tables."""
    before = everything(job.crawl.data)
    job.run(stage, round_, force=True, **options)
    return [
        d
        for d in differences(before, everything(job.crawl.data))
        if not (stage == "report" and d.startswith(("stages", "metrics")))
    ]


# -- repeated --------------------------------------------------------------------------
@pytest.mark.parametrize("stage", ["inject", *ROUND])
def test_a_stage_run_again_after_all_later_ones_changes_nothing(unkilled, stage):
    assert unkilled[0].again_at_the_end[stage] == []


def test_a_stage_run_twice_changes_nothing(on, seeded, unkilled, tmp_path):
    with World(tmp_path, seeded) as w:
        job = w.job(on)
        round_ = job.crawl.round(ROUND_ID)
        for stage in ("inject", *ROUND):
            if stage != "inject":
                job.run(stage, round_)
            assert (stage, _repeat(job, round_, stage, **_options(stage))) == (stage, [])
        job.crawl.close(round_)
        w.is_sound(on, unkilled[1])


def test_repeats_asked_nobody(unkilled):
    w, _ = unkilled
    assert len(w.log()) == w.requests
    assert most_asked(w.log()) == 1


def test_a_finished_round_run_again_changes_nothing(unkilled):
    w, _ = unkilled
    before, files = everything(w.data), sorted((w.data / "warc").rglob("*.warc.gz"))
    done = w.again()
    assert done.code == 0, done.err
    assert done.said["rounds"] == []
    assert differences(before, everything(w.data)) == []
    assert sorted((w.data / "warc").rglob("*.warc.gz")) == files and len(w.log()) == w.requests
    refused = run(
        "fetch", "--round-id", ROUND_ID, "--force", "--data", w.data, "--config", w.config
    )
    assert refused.code == 2 and "closed" in refused.err and "Traceback" not in refused.err
    assert differences(before, everything(w.data)) == []


# -- killed ----------------------------------------------------------------------------
def test_a_driver_killed_while_it_fetches(on, planned, fetched, tmp_path):
    """Its JVM and workers are left to themselves; another driver starts at once."""
    with World(tmp_path, planned) as w:
        first = w.start()
        assert wait_for(lambda: len(load_log(tmp_path / "web.jsonl")) > 60, first)
        first.kill()
        first.wait()
        w.to_parse(on)
        w.is_sound_to_parse(on, fetched)
        assert most_asked(w.log()) == 2


def test_a_worker_killed_while_it_fetches(on, planned, fetched, tmp_path):
    """Spark starts the task again within the same run."""
    with World(tmp_path, planned) as w, ThreadPoolExecutor(1) as thread:
        done = thread.submit(w.to_parse, on)
        assert wait_for(lambda: done.done() or len(load_log(tmp_path / "web.jsonl")) > 60)
        os.kill(random.Random(1).choice(workers(os.getpid())), signal.SIGKILL)
        done.result()
        w.is_sound_to_parse(on, fetched)
        assert most_asked(w.log()) <= 2


KILLS = 5
WHO = {
    "driver": lambda s: [s],
    "jvm": lambda s: processes(s, "SparkSubmit"),
    "worker": workers,
    "server": lambda s: processes(s, "crawlkit.engine.worker_main")[:1],
    "executor": lambda s: processes(s, "CoarseGrainedExecutorBackend"),
}
MOMENTS = [
    *(("local", victim, seed) for victim in ("driver", "worker", "server") for seed in range(4)),
    *(
        pytest.param("spark", victim, seed, marks=pytest.mark.spark)
        for victim in ("driver", "jvm", "worker", "executor")
        for seed in range(2)
    ),
]


@pytest.mark.parametrize(("on", "victim", "seed"), MOMENTS, indirect=["on"], scope="session")
def test_killed_at_random_moments(on, seeded, unkilled, tmp_path, victim, seed):
    """Five kills -9, each at a moment drawn from what is left of a crawl's life, then it is let
    through.
    """
    rng, killed = random.Random(f"{victim}{seed}"), []
    changes = {"spark.master": "local-cluster[2,1,1024]"} if victim == "executor" else {}
    for n in range(KILLS):  # another crawl if one has come to its end
        (tmp_path / str(n)).mkdir()
        with World(tmp_path / str(n), seeded, **changes) as w:
            while kill_and_end(w, rng, victim, killed) != 0:
                assert len(killed) <= KILLS
            w.is_sound(on, unkilled[1])
        if len(killed) == KILLS:
            break
    print(f"{victim} {seed}: killed in", *killed)
    assert len(killed) == KILLS


def kill_and_end(w: World, rng: random.Random, victim: str, killed: list[str]) -> int:
    """One run of the crawl with what is left of the kills; its exit code."""
    process = w.start()
    while len(killed) < KILLS and process.poll() is None:
        asked = len(w.log(0))
        if rng.random() < 0.5 and w.stage() in (
            "generate",
            "fetch",
        ):  # half of the moments in the fetch stage, which is short
            asked += rng.randrange(5, 120)
            if not wait_for(
                lambda: len(w.log(0)) >= asked or w.stage() not in ("generate", "fetch"), process
            ):
                break
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(1, 20))
        victims = WHO[victim](process.pid)
        if victims and process.poll() is None:
            killed.append(w.stage())
            os.kill(rng.choice(victims), signal.SIGKILL)
            if victim in ("driver", "jvm"):
                break
    done = ended(process)
    if (
        victim == "jvm" and done.code == 2
    ):  # no other than a Java that does not work: it was not up yet
        assert "crawlkit: Spark did not start" in done.err and "restore" not in done.err, done.err
        return done.code
    assert done.code in (0, 1, -signal.SIGKILL), done.err
    assert done.code != 1 or done.err.splitlines()[-1].startswith("crawlkit: "), done.err
    return done.code


POINTS = {
    "in a file": 12,
    "before a commit": 4,
    "after a commit": 4,
    "before a mark": 2,
}  # how many of them one run passes at least, but for its end


def test_killed_between_files_commits_and_marks(on, seeded, unkilled, tmp_path):
    """Whoever passes the point, driver or worker, kills itself there; the next run goes on."""
    rng = random.Random(1)
    points = [
        (point, rng.randint(1, most))
        for point, most in rng.sample([*POINTS.items()] * 2, 2 * len(POINTS))
    ]
    for n in range(len(points)):  # another crawl if one has come to its end
        (tmp_path / f"{n}").mkdir()
        with World(tmp_path / f"{n}", seeded) as w:
            code = None
            while code != 0:
                code = ended(w.start(**(w.kill_at(*points.pop()) if points else {}))).code
                assert code in (0, 1, -signal.SIGKILL)
                w.was_never_half(unkilled[1])
            w.is_sound(on, unkilled[1])
        if not points:
            break


IN_FILES = [
    *(("local", n) for n in (1, 2, 4)),
    *(pytest.param("spark", n, marks=pytest.mark.spark) for n in (1, 3, 4)),
]


@pytest.mark.parametrize(("on", "n"), IN_FILES, indirect=["on"], scope="session")
def test_a_task_of_parse_killed_in_its_files(on, committed, parsed, tmp_path, n):
    """Spark starts it again: no row is lost or there twice, the counts are those of one run, what
    it left behind is for VACUUM alone.
    """
    with World(tmp_path, committed) as w:
        done = ended(w.start("parse", "--round-id", ROUND_ID, **w.kill_at("in a file", n)))
        assert done.code == 0, done.err
        assert counted(done.said) == parsed["counts"]
        assert differences(parsed["tables"], parse_tables(w.data)) == []
        job = w.job(on)
        assert any(set.difference(*files_of(w.data, name)) for name in parsed["tables"])
        with job.crawl.lock:
            for name in parsed["tables"]:
                job.tables.compact(name, 0)
                assert set.difference(*files_of(w.data, name)) == set()
        assert differences(parsed["tables"], parse_tables(w.data)) == []


def files_of(data: Path, name: str) -> tuple[set[str], set[str]]:
    """Data files below a table, and those that it consists of."""
    return {
        str(f) for f in (data / "tables" / name).rglob("*.parquet") if "_delta_log" not in f.parts
    }, {f.removeprefix("file://") for f in DeltaTable(str(data / "tables" / name)).file_uris()}


@pytest.mark.parametrize("on", [SPARK], indirect=True, scope="session")
def test_parsed_rows_that_are_lost_between_two_commits(
    on, committed, parsed, tmp_path, monkeypatch
):
    """As by the end of an executor: found rows are made again after the files of pages have been
    told of.
    """
    with World(tmp_path, committed, **{"spark.small_bytes": 0}) as w:
        job = w.job(on)
        commit, lost = job.tables.commit, []

        def losing(name, adds, part):
            commit(name, adds, part)
            if name == "links":
                for rdd in job.spark.sparkContext._jsc.getPersistentRDDs().values():
                    lost.append(rdd.unpersist(True))

        monkeypatch.setattr(job.tables, "commit", losing)
        counts = job.run("parse", job.crawl.round(ROUND_ID))
        assert lost and counted(counts) == parsed["counts"]
        assert differences(parsed["tables"], parse_tables(w.data)) == []
        assert set.difference(*files_of(w.data, "pages"))  # the second time wrote files too


@pytest.mark.parametrize("on", [SPARK], indirect=True, scope="session")
def test_executors_that_were_frozen_wake_after_a_second_driver_has_finished(
    on, seeded, unkilled, tmp_path
):
    with World(tmp_path, seeded, **{"spark.master": "local-cluster[2,1,1024]"}) as w:
        first = w.start()
        assert wait_for(lambda: len(load_log(tmp_path / "web.jsonl")) > 40, first)
        frozen = processes(first.pid, "CoarseGrainedExecutorBackend") + processes(
            first.pid, "pyspark.daemon"
        )
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        assert (done := w.again()).code == 0, done.err
        asked, tables, parts = (
            len(w.log()),
            everything(w.data),
            sorted((w.data / "state" / "parts").rglob("*.json*")),
        )
        for pid in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        time.sleep(3)
        assert len(w.log()) == asked
        assert sorted((w.data / "state" / "parts").rglob("*.json*")) == parts
        assert differences(tables, everything(w.data)) == []
        w.is_sound(on, unkilled[1])


@pytest.mark.parametrize("on", ["local"], indirect=True, scope="session")
def test_a_parser_that_is_killed_loses_no_page(on, committed, parsed, tmp_path):
    """The page that it had is parsed again by another child."""
    with World(tmp_path, committed) as w:
        process = w.start("parse", "--round-id", ROUND_ID)
        assert wait_for(lambda: children_of_workers(process.pid), process)
        os.kill(children_of_workers(process.pid)[0], signal.SIGKILL)
        assert (done := ended(process)).code == 0, done.err
        assert counted(done.said) == parsed["counts"]
        assert differences(parsed["tables"], parse_tables(w.data)) == []


@pytest.mark.parametrize("on", ["local"], indirect=True, scope="session")
def test_an_interrupted_crawl_goes_on_at_once(on, seeded, unkilled, tmp_path):
    """Ctrl-C lets the workers store what they have and give their leases back."""
    with World(tmp_path, seeded, **{"lease.ttl_s": 120}) as w:
        first = w.start()
        assert wait_for(lambda: len(load_log(tmp_path / "web.jsonl")) > 60, first)
        first.send_signal(signal.SIGINT)
        done = ended(first)
        assert done.code == 1 and "interrupted" in done.err.splitlines()[-1], done.err
        asked = len(w.log())
        began = time.monotonic()
        assert (done := w.again()).code == 0, done.err
        assert time.monotonic() - began < 60
        assert len(w.log()) - asked < len(WEB.pages)  # nothing that was stored is asked again
        w.is_sound(on, unkilled[1])


@pytest.mark.parametrize("on", ["local"], indirect=True, scope="session")
def test_a_frozen_worker_is_run_again(on, seeded, unkilled, tmp_path):
    with World(tmp_path, seeded) as w:
        first = w.start()
        assert wait_for(lambda: len(load_log(tmp_path / "web.jsonl")) > 40, first)
        os.kill(workers(first.pid)[0], signal.SIGSTOP)
        assert (done := ended(first)).code == 0, done.err
        w.is_sound(on, unkilled[1])


def test_a_frozen_driver_keeps_its_round_and_goes_on(on, seeded, unkilled, tmp_path):
    with World(tmp_path, seeded) as w:
        first = w.start()
        assert wait_for(lambda: len(load_log(tmp_path / "web.jsonl")) > 40, first)
        os.kill(first.pid, signal.SIGSTOP)
        second = w.again()
        assert second.code == 3 and "held by another process" in second.err, second.err
        os.kill(first.pid, signal.SIGCONT)
        assert (done := ended(first)).code == 0, done.err
        w.is_sound(on, unkilled[1])


def test_two_drivers_of_one_round(on, seeded, unkilled, tmp_path):
    with World(tmp_path, seeded) as w:
        both = [ended(p) for p in [w.start(), w.start()]]
        assert sorted(d.code for d in both) in ([0, 0], [0, 3]), [d.err for d in both]
        w.is_sound(on, unkilled[1])


def test_two_rounds_at_once(on, seeded, unkilled, tmp_path):
    """The second takes what the first has not claimed: nothing is planned by both."""
    with World(tmp_path, seeded, **{"frontier.buckets_per_round": 4}) as w:
        first = w.start("round", "--round-id", ROUND_ID)
        second = w.start("round", "--round-id", "other")
        both = [ended(first), ended(second)]
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
        mine, theirs = facts(w.data), unkilled[1]
        for name in ("crawldb", "ranks", "hostdb"):
            assert differences({name: theirs[name]}, {name: mine[name]}) == []
        assert {(r["cluster_id"], r["url"]) for r in _loaded(mine["duplicates"])} == {
            (r["cluster_id"], r["url"]) for r in _loaded(theirs["duplicates"])
        }
        w.is_polite(w.job(on).cfg)


def _loaded(rows) -> list[dict]:
    import json

    return [json.loads(r) for r in rows]


# -- a full disk -----------------------------------------------------------------------
DISKS = [
    *(("local", mib) for mib in (2, 3)),
    *(pytest.param("spark", mib, marks=pytest.mark.spark) for mib in (2, 3)),
]


@pytest.mark.parametrize(("on", "mib"), DISKS, indirect=["on"], scope="session")
def test_a_full_disk(on, seeded, unkilled, tmp_path, mib):
    """On a file system of a few MiB the round ends with one message; with more room it finishes."""
    with World(tmp_path, None) as w:
        w.data.mkdir()
        mount = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "none", str(w.data)],
            capture_output=True,
            text=True,
        )
        if mount.returncode:
            pytest.skip(f"a small file system cannot be mounted here: {mount.stderr.strip()}")
        try:
            shutil.copytree(seeded, w.data, dirs_exist_ok=True)
            done = w.again()
            assert done.code in (1, 2) and "Traceback" not in done.err, done.err
            assert "space" in done.err.splitlines()[-1], done.err
            subprocess.run(["mount", "-o", "remount,size=1g", str(w.data)], check=True)
            assert (done := w.again()).code == 0, done.err
            w.is_sound(on, unkilled[1])
        finally:
            subprocess.run(["umount", "-l", str(w.data)], check=True)
