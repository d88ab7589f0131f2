"""Bad input gives one clear message and exit code 2, never a traceback, and leaves the tables as
they were.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from crawlkit.cli.errors import guard
from crawlkit.cli.settings import actor, parse_now
from crawlkit.config import ConfigError, parse_config
from crawlkit.crawl.state import Crawl, CrawlError
from crawlkit.round.job import Job
from crawlkit.round.progress import Progress
from crawlkit.runtime.session import jvm_locale
from crawlkit.runtime.spark_errors import damaged_file

from tests.cli.call import call
from tests.rounds.crawlproc import Done, command, environment, everything, run

pytestmark = pytest.mark.waits

SEED = "http://site.example/\n"


def refused(done: Done, *words: str, code: int = 2) -> None:
    """One message on standard error that has the words; no traceback, nothing on standard
    output.
    """
    lines = [line for line in done.err.splitlines() if line.startswith("crawlkit: ")]
    assert done.code == code, done.err
    assert len(lines) == 1, done.err
    for word in words:
        assert word in done.err, done.err
    assert "Traceback" not in done.err and "Traceback" not in done.out and done.out == ""
    assert len(done.err.splitlines()) <= 12, done.err


# -- no JVM is started for these -------------------------------------------------------
@pytest.mark.parametrize(
    "content, words",
    [
        (None, ("seeds.txt", "one URL a line")),
        ("folder", ("seeds.txt", "one URL a line")),
        (b"\x1f\x8b\x08\x00rest", ("seeds.txt", "not a UTF-8 text file")),
        (b"\xff\xfeh\x00", ("seeds.txt", "not a UTF-8 text file")),
    ],
)
def test_seed_file(tmp_path, content, words):
    path = tmp_path / "seeds.txt"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    refused(call("crawl", "--seeds", path, "--data", tmp_path / "d"), *words)
    refused(call("inject", "--seeds", path, "--data", tmp_path / "d"), *words)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "content, words",
    [
        (None, ("cannot be read",)),
        (b"fetch: [1, 2", ("bad.yaml:", "not plain YAML")),
        (b"- a\n- b\n", ("bad.yaml:1", "mapping")),
        (
            b"fetch:\n  slotz: 3\n",
            ("bad.yaml:2", "unknown key fetch.slotz", "did you mean fetch.slots"),
        ),
        (b"fetch:\n  slots: many\n", ("bad.yaml:2", "fetch.slots")),
        (b"frontier:\n  buckets: 3\n", ("frontier.buckets",)),
        (b"\xff\xfe\x00", ("not UTF-8",)),
        (b"a: !!python/object/apply:os.system ['true']\n", ("bad.yaml:1", "not plain YAML")),
    ],
)
def test_configuration_file(tmp_path, content, words):
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_bytes(content)
    refused(call("crawl", "http://localhost/", "--data", tmp_path / "d", "--config", path), *words)
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    "args, words",
    [
        (("round", "--set", "fetch.slots"), ("--set fetch.slots", "section.key=value")),
        (("round", "--set", "fetch.slots=0"), ("fetch.slots",)),
        (("round", "--set", "lease.ttl_s=5"), ("lease.ttl_s",)),
        (("generate", "--now", "yesterday"), ("--now", "2026-01-31T12:00:00Z")),
        (("inject",), ("--seeds FILE",)),
        (("inject", "--seeds", "-", "--priority", "highest"), ("--priority",)),
        (("inject", "--seeds", "-", "--mode", "replace"), ("keep, update or overwrite",)),
        (("fetch",), ("no round is open", "crawlkit generate")),
        (("fetch", "--round-id", "r000009"), ("no round 'r000009'",)),
        (("generate", "--round-id", "../x"), ("round id",)),
        (("crawl", "http://site.example/"), ("agent.info_url", "placeholder")),
    ],
)
def test_arguments(tmp_path, args, words):
    refused(call(*args, "--data", tmp_path / "d", stdin=SEED), *words)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-5",
        "1e9",
        "nan",
        "٣٣",
        "253402300800",
        "99999999999999999999999",
        "1969-12-31",
        "9999-12-31T23:59:59-05:00",
        "0001-01-01T00:00:00+05:00",
    ],
)
def test_times_that_no_table_can_hold(text):
    with pytest.raises(ConfigError, match="2026-01-31T12:00:00Z"):
        parse_now(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0.0),
        ("1769860800.5", 1769860800.5),
        ("2026-01-31T12:00:00Z", 1769860800.0),
        ("2026-01-31 12:00", 1769860800.0),
        ("2026-01-31T14:00:00+02:00", 1769860800.0),
        ("2026-01-31T07:00:00-05:00", 1769860800.0),
    ],
)
def test_times(text, expected):
    assert parse_now(text) == expected


def test_a_path_that_is_too_long(tmp_path):
    refused(call("status", "--data", tmp_path / ("x" * 300)), "File name too long")


def test_a_place_that_cannot_be_replaced(tmp_path, capsys):
    from crawlkit.exports.files import atomic

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for target in (tmp_path / "full", Path("/")):

        def write(target=target) -> None:
            with atomic(target) as f:
                f.write(b"x")

        refused(said(capsys, write), f"crawlkit: {target}: ")


@pytest.mark.parametrize(
    ("number", "word"), [(errno.EIO, "Input/output error"), (errno.EMFILE, "Too many open files")]
)
def test_errors_of_the_machine(capsys, number, word):
    def work() -> None:
        raise OSError(number, os.strerror(number), "/some/file")

    refused(said(capsys, work), "/some/file", word, "run the same command again", code=1)


def test_a_user_without_a_name(monkeypatch):
    def no_entry() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", no_entry)
    assert actor() == f"cli:{os.getuid()}"


@pytest.mark.parametrize(
    ("as_json", "expected"),
    [
        (False, "  removing orphans ...\n"),
        (True, '{"event": "step", "text": "removing orphans"}\n'),
    ],
)
def test_the_steps_of_upkeep_are_told(capsys, as_json, expected):
    job = Job(SimpleNamespace(cfg=parse_config("")), say=Progress(as_json), engine="local")
    job.report_step("removing orphans")
    assert capsys.readouterr().err == expected


def test_a_round_is_no_path(tmp_path):
    crawl = Crawl(tmp_path / "d", parse_config(""))
    crawl.open_round(0.0)
    (tmp_path / "round.json").write_text("{}")
    for name in ("../../..", "..", "", "r000001/../r000001"):
        with pytest.raises(CrawlError, match="no round"):
            crawl.round(name)
    refused(
        call("audit", "--round-id", "r000009", "--data", tmp_path / "d"), "no round 'r000009'"
    )  # no proof of what never was


def test_an_address_in_another_encoding_is_read_as_in_a_seed_file():
    done = run("normalize", os.fsdecode(b"http://site.example/\xff\xe4"), "http://site.example/ä")
    assert done.out.splitlines() == ["http://site.example/%FF%E4", "http://site.example/%C3%A4"]


def test_an_agent_that_no_group_can_name(tmp_path):
    path = tmp_path / "robots.txt"
    path.write_text("User-agent: mybot\nDisallow: /\n")
    refused(
        call(
            "robots", path, "http://site.example/", "--agent", "Mozilla/5.0 (compatible; mybot/1.0)"
        ),
        "--agent",
        "product token",
    )


def test_a_path_that_holds_an_address_is_judged_as_a_path(tmp_path):
    path = tmp_path / "robots.txt"
    path.write_text("User-agent: *\nDisallow: /r?u=http\n")
    assert call("robots", path, "/r?u=http://other.example/").out.startswith("disallowed by line 2")


def test_the_folder_is_a_file(tmp_path):
    path = tmp_path / "d"
    path.write_text("x")
    for args in (
        ("crawl", "http://localhost/"),
        ("round",),
        ("fetch",),
        ("status",),
        ("maintain",),
    ):
        refused(call(*args, "--data", path), str(path))
    refused(call("crawl", "http://localhost/", "--data", path / "below"), str(path))


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="needs /proc as a place where nothing can be made"
)
def test_the_folder_cannot_be_written(tmp_path):
    refused(call("crawl", "http://localhost/", "--data", "/proc/crawl"), "/proc/crawl")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"open": 3}', "\x00"])
def test_damaged_state(tmp_path, text):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "crawl.json").write_text(text)
    crawl = Crawl(tmp_path, parse_config(""))
    with pytest.raises(CrawlError, match=r"crawl\.json is damaged: "):
        crawl.check()
    if text == "{":
        refused(call("round", "--data", tmp_path), "crawl.json is damaged")


def test_damaged_round_and_marks(tmp_path):
    crawl = Crawl(tmp_path, parse_config(""))
    round_ = crawl.open_round(0.0)
    for name in ("fetch.json", "commit.pin.json"):
        for text in ("", "{", "\x00"):
            (tmp_path / "state" / "rounds" / round_.id / name).write_text(text)
            with pytest.raises(CrawlError, match=name.replace(".", r"\.") + " is damaged: "):
                (
                    crawl.mark(round_, "fetch")
                    if name == "fetch.json"
                    else crawl.pin(round_, "commit", [])
                )
    for text in ("", "{", "[]", "{}"):
        (tmp_path / "state" / "rounds" / round_.id / "round.json").write_text(text)
        with pytest.raises(CrawlError, match=r"round\.json is damaged: "):
            crawl.round(round_.id)
    refused(call("fetch", "--round-id", round_.id, "--data", tmp_path), "round.json is damaged")


def test_another_bucket_count(tmp_path):
    Crawl(tmp_path, parse_config("")).open_round(0.0)
    refused(
        call("round", "--data", tmp_path, "--set", "frontier.buckets=16"), "frontier.buckets", "8"
    )


def java_that(folder: Path, script: str) -> dict[str, str]:
    home = folder / "jre"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return {"JAVA_HOME": str(home)}


def not_started(folder: Path, *words: str, run: Callable[..., Done] = call, **env: str) -> None:
    """A crawl that cannot start its session says so before it has written a row."""
    given = ("http://localhost/", "--data", folder / "d", "--engine", "spark")
    refused(run("crawl", *given, env=env), *words)
    assert not (folder / "d" / "tables").exists()


def test_no_java(tmp_path):
    not_started(
        tmp_path,
        "Java",
        "install a Java 17 runtime",
        run=run,
        JAVA_HOME=str(tmp_path),
        PATH=str(Path(sys.executable).parent),
    )


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        (
            "echo 'Error: LinkageError: class file version 61.0, this runtime knows up to 52.0'"
            " >&2; exit 1"
        ),
    ],
)
def test_java_that_does_not_work(tmp_path, script):
    not_started(tmp_path, "Spark did not start", "Java 17", run=run, **java_that(tmp_path, script))


@pytest.mark.parametrize(
    "line",
    [
        'Exception in thread "main" java.lang.IllegalArgumentException: basedir is not absolute',
        "Caused by: javax.security.auth.login.LoginException: invalid null input: name",
        "java.lang.OutOfMemoryError: unable to create native thread",
    ],
)
def test_what_java_said_when_it_did_not_start_is_told(tmp_path, line):
    script = f"echo '{line}' >&2; echo '\tat some.where(X.java:1)' >&2; exit 1"
    words = line.removeprefix("Caused by: ")
    not_started(tmp_path, "Java said", words, run=run, **java_that(tmp_path, script))


def test_a_user_without_a_name_is_told_what_spark_needs(tmp_path):
    alone = ["unshare", "-U", "--map-user=54321", "--map-group=54321"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"]).returncode:
        pytest.skip("no user namespaces here")
    tmp_path.chmod(0o777)
    words = [*command("doctor", "--set", "engine.name=spark", "--data", tmp_path / "d", "--json")]
    done = subprocess.run(
        [*alone, *words], capture_output=True, text=True, env=environment(), check=False
    )
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert not checks["user name"]["ok"] and "/etc/passwd" in checks["user name"]["fix"]


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, {"LC_ALL": "C.UTF-8"}),
        ({"LANG": "POSIX"}, {"LC_ALL": "C.UTF-8"}),
        ({"LANG": "C.UTF-8"}, {}),
        ({"LC_ALL": "tr_TR.utf8"}, {}),
        ({"LC_CTYPE": "en_US.UTF-8", "LANG": "C"}, {}),
    ],
)
def test_java_names_files_as_python_does(env, expected):
    assert jvm_locale(env) == expected


def test_no_jars(tmp_path):
    (tmp_path / "jars").mkdir()
    not_started(tmp_path, "JAR", "make setup", CRAWLKIT_JARS=str(tmp_path / "jars"))


def test_a_round_without_jars_leaves_the_tables(tmp_path):
    data = tmp_path / "d"
    assert (
        run("inject", "--seeds", "-", "--data", data, stdin="http://localhost/\n").code == 0
    )  # needs no JVM
    before = everything(data)
    assert before["crawldb_log"].total() == 1
    done = run(
        "round", "--data", data, "--engine", "spark", env={"CRAWLKIT_JARS": str(tmp_path / "none")}
    )
    refused(done, "JAR", "make setup")
    assert "restore" not in done.err  # no table is to blame
    assert everything(data) == before


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "other", "one missing"])
def test_broken_jar(tmp_path, damage):
    from crawlkit.runtime.jars import jar_folder

    folder = tmp_path / "jars"
    shutil.copytree(jar_folder(), folder)
    jar = next(folder.glob("delta-spark*.jar"))
    if damage == "cut":
        os.truncate(jar, jar.stat().st_size // 2)
    elif damage == "other":
        with zipfile.ZipFile(jar, "w") as z:
            z.writestr("hello.txt", "not Delta")
    elif damage == "one missing":
        next(folder.glob("delta-storage*.jar")).unlink()
    else:
        jar.write_bytes(b"" if damage == "empty" else b"<html>404 not found</html>")
    not_started(tmp_path, "JAR", "make setup", CRAWLKIT_JARS=str(folder))


# -- damaged tables: in this process, through the same guard ---------------------------
@pytest.fixture(scope="module")
def finished(on, tmp_path_factory):
    """A folder with one finished small round: nothing listens on the seeds' port, so it is
    quick.
    """
    folder = tmp_path_factory.mktemp("bad") / "d"
    job = Job(Crawl(folder, config()), quick=True, **on)
    round_ = job.crawl.open_round(0.0)
    job.run("inject", round_, lines=["http://localhost:9/", "http://localhost:9/a"])
    job.run("generate", round_)
    return folder


def config():
    return parse_config(
        "fetch: {ports: [9], allow_private: [127.0.0.0/8], timeout_s: 2, connect_timeout_s:"
        " 1}\nlease: {ttl_s: 8, renew_s: 1, margin_s: 1}\n"
    )


def said(capsys, work) -> Done:
    """What the command line would print and return."""
    capsys.readouterr()
    code = 0
    try:
        guard(work)
    except typer.Exit as e:
        code = e.exit_code
    out = capsys.readouterr()
    return Done(
        code,
        out.out,
        "\n".join(
            line for line in out.err.splitlines() if line.startswith(("crawlkit", "Traceback"))
        ),
    )


def damage_log(table: Path) -> None:
    for path in (table / "_delta_log").glob("*.json"):
        path.write_bytes(b"\x00\xffgarbage")


def damage_empty_log(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")
    (table / "_delta_log").mkdir()


def damage_lost_files(table: Path) -> None:
    for path in table.rglob("*.parquet"):
        path.unlink()


def damage_cut_files(table: Path) -> None:
    for path in table.rglob("*.parquet"):
        os.truncate(path, path.stat().st_size // 2)


def damage_is_a_file(table: Path) -> None:
    shutil.rmtree(table)
    table.write_text("x")


def damage_other_schema(table: Path) -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    shutil.rmtree(table)
    write_deltalake(str(table), pa.table({"x": [1, 2]}))


@pytest.mark.parametrize(
    "damage",
    [
        damage_log,
        damage_empty_log,
        damage_lost_files,
        damage_cut_files,
        damage_is_a_file,
        damage_other_schema,
    ],
)
def test_damaged_table(on, finished, tmp_path, capsys, damage):
    data = tmp_path / "d"
    shutil.copytree(finished, data)
    damage(data / "tables" / "fetchlist")
    job = Job(Crawl(data, config()), quick=True, **on)
    before = {
        p: p.stat().st_mtime_ns
        for p in (data / "tables").rglob("*")
        if p.is_file() and not p.name.endswith(".crc")
    }
    for stage in ("fetch", "commit"):
        done = said(capsys, lambda stage=stage: job.run(stage, job.crawl.open_rounds()[0]))
        refused(done, "fetchlist", "restore")
    assert {
        p: p.stat().st_mtime_ns
        for p in (data / "tables").rglob("*")
        if p.is_file() and not p.name.endswith(".crc")
    } == before


def test_tables_is_a_file(tmp_path, capsys):
    (tmp_path / "tables").write_text("x")
    job = Job(Crawl(tmp_path, config()), quick=True)
    refused(said(capsys, job.crawl.check), f"{tmp_path}/tables is not a folder")
    refused(run("round", "--data", tmp_path), f"{tmp_path}/tables is not a folder")
    assert (tmp_path / "tables").read_text() == "x"


def test_a_damaged_part_is_named_and_the_table_can_be_written_afterwards(
    on, finished, tmp_path, capsys
):
    data = tmp_path / "d"
    shutil.copytree(finished, data)
    job = Job(Crawl(data, config()), quick=True, **on)
    round_ = job.crawl.open_rounds()[0]
    job.run("fetch", round_)
    part = next(
        p for p in (data / "state" / "parts").rglob("*") if p.is_file() and p.name != "begun.json"
    )
    good = part.read_bytes()
    part.write_bytes(b"\x00garbage")
    refused(said(capsys, lambda: job.run("commit", round_)), part.name, "restore")
    assert everything(data)["captures"].total() == 0
    part.write_bytes(good)
    assert job.run("commit", round_)["rows_out"] == 3
    assert everything(data)["captures"].total() == 3


@pytest.mark.parametrize(
    ("said_by_spark", "place"),
    [
        (
            (
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file"
                " file:///with%20spaces/%C3%BCn/tables/pages/a.parquet. SQLSTATE: KD001"
            ),
            "/with spaces/ün/tables/pages/a.parquet",
        ),
        (
            (
                "java.io.FileNotFoundException: File file:/d/tables/pages/_delta_log/0.json does"
                " not exist"
            ),
            "/d/tables/pages/_delta_log/0.json",
        ),
        (
            "FileNotFoundException: No such file: s3a://crawl/x/tables/pages/a.parquet",
            "s3a://crawl/x/tables/pages/a.parquet",
        ),
    ],
)
def test_a_damaged_file_is_named_as_the_shell_knows_it(said_by_spark, place):
    assert damaged_file(said_by_spark) == place
