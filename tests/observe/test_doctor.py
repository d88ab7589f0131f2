"""`crawlkit doctor`: on a sound machine nothing is missing; each planted fault is named, with its
fix, and the exit code is 2.
"""

from __future__ import annotations

import importlib.metadata
import json
import resource
import shutil
import socket
import threading
from collections import namedtuple

import dns.message
import pytest
from crawlkit import native
from crawlkit.cli.main import load_all
from crawlkit.config import parse_config
from crawlkit.observe import doctor, doctor_install
from typer.testing import CliRunner

from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3_server import moto

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def name_server():
    """Answers every question with NXDOMAIN."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))

    def run():
        while True:
            try:
                data, client = server.recvfrom(4096)
                reply = dns.message.make_response(dns.message.from_wire(data))
                reply.set_rcode(3)
                server.sendto(reply.to_wire(), client)
            except OSError:
                return

    threading.Thread(target=run, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.close()


@pytest.fixture
def sound(name_server, tmp_path, monkeypatch):
    """`look(*sets)`: the findings that are not ok."""
    jars = tmp_path / "jars"
    jars.mkdir()
    monkeypatch.setattr("crawlkit.observe.doctor_install.check_jars", lambda folder: None)
    monkeypatch.setenv("CRAWLKIT_JARS", str(jars))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))

    def look(*sets, data=tmp_path / "data"):
        cfg = parse_config(
            "",
            sets=(
                "agent.info_url=https://you.test/bot",
                f"fetch.resolvers=['{name_server}']",
                "engine.name=spark",
                *sets,
            ),
        )
        lock = tmp_path / "jars.lock"
        return {
            f.check: f
            for f in doctor.doctor(data, cfg, lock if lock.exists() else None)
            if not f.ok
        }

    look.tmp = tmp_path
    return look


def test_a_sound_machine(sound):
    assert sound() == {}


def test_what_spark_lacks_is_no_fault_of_a_crawl_on_this_machine(sound, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(sound.tmp / "nowhere"))
    assert sound("engine.name=local") == {}
    cfg = parse_config("", sets=("engine.name=local",))
    said = {f.check: f.detail for f in doctor.doctor(sound.tmp / "data", cfg)}
    assert said["engine"] == "local (engine.name = local)"
    assert "lacks java" in said["engine spark"] and "java" not in said


def test_no_java(sound, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(sound.tmp / "nowhere"))
    assert "JAVA_HOME" in sound()["java"].fix


def test_an_old_java(sound):
    (sound.tmp / "jdk" / "bin" / "java").write_text(
        "#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n"
    )
    found = sound()
    assert list(found) == ["java"]
    assert "1.8.0_392" in found["java"].detail and "Java 17" in found["java"].fix


def test_a_jar_that_is_missing_and_one_that_is_another(sound):
    (sound.tmp / "jars" / "a-1.jar").write_bytes(b"not it")
    (sound.tmp / "jars.lock").write_text(f"g a 1 {'0' * 64}\ng b 2 {'0' * 64}\n")
    found = sound()["jars"]
    assert "a-1.jar, b-2.jar" in found.detail and "crawlkit jars" in found.fix


def test_another_version_and_a_missing_package(sound, monkeypatch):
    real = importlib.metadata.version

    def version(name):
        if name == "lxml":
            raise importlib.metadata.PackageNotFoundError(name)
        return "4.1.0" if name == "pyspark" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    found = sound()
    assert (found["pyspark"].detail, found["packages"].detail) == ("4.1.0", "not installed: lxml")
    assert "pyspark==4.2.0" in found["pyspark"].fix


@pytest.mark.parametrize(
    "script",
    [None, "#!/bin/sh\necho 3 9\n", "#!/bin/sh\necho 'No module named crawlkit' >&2; exit 1\n"],
)
def test_a_python_of_the_workers_that_is_none_of_ours(sound, monkeypatch, script):
    python = sound.tmp / "python"
    if script:
        python.write_text(script)
        python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    assert "unset PYSPARK_PYTHON" in sound()["PYSPARK_PYTHON"].fix


def test_spark_settings(sound):
    found = sound(
        "spark.extra={spark.sql.session.timeZone: Europe/Paris, spark.speculation: 'true'}",
        "spark.master=local[4]",
    )
    assert set(found) == {"time zone", "speculation", "spark.master"}
    assert "Europe/Paris" in found["time zone"].detail


def test_the_placeholder_agent(sound):
    found = sound("agent.info_url=https://example.invalid/crawler")
    assert list(found) == ["contact address"]
    assert "agent.info_url" in found["contact address"].fix


def test_a_dead_name_server(sound):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    found = sound(f"fetch.resolvers=['127.0.0.1:{port}']")
    assert (
        f"127.0.0.1:{port}" in found["name servers"].detail
        and "fetch.resolvers" in found["name servers"].fix
    )


def test_a_folder_that_cannot_be_written_and_one_that_is_a_file(sound):
    (sound.tmp / "file").write_text("")
    found = sound(f"storage.spool={sound.tmp}/file/spool")
    assert "storage.spool" in "".join(found)
    assert "not a folder" in sound(data=sound.tmp / "file")["crawl folder"].detail


def test_a_full_disk(sound, monkeypatch):
    monkeypatch.setattr(
        shutil,
        "disk_usage",
        lambda path: namedtuple("U", "total used free")(10**12, 10**12 - 10**8, 10**8),
    )
    assert "free 1.6 GB" in sound()["disk room"].fix


def test_too_few_open_files(sound, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    assert "ulimit -n 656" in sound()["open files"].fix


def test_object_stores(sound, tmp_path):
    with moto() as endpoint, FaultProxy(endpoint, share=0.0) as proxy:
        at = (
            f"s3.endpoint_url={proxy.url}",
            "s3.path_style=true",
            "s3.timeout_s=2",
            "s3.give_up_s=0.5",
        )
        assert sound("storage.warc=s3://crawl/w", "storage.state=s3://crawl/s", *at) == {}
        assert (
            "create the bucket"
            in sound("storage.warc=s3://nowhere/w", *at)["object store storage.warc"].detail
        )
        forward = proxy._forward

        def careless(request, body):  # a store that knows no conditions
            for name in ("If-None-Match", "If-Match"):
                del request.headers[name]
            return forward(request, body)

        proxy._forward = careless
        found = sound("storage.state=s3://crawl/s", *at)["object store storage.state"]
        assert "If-None-Match: * is not heeded" in found.detail and "docs/s3.md" in found.fix
        proxy.down = True
        assert (
            "check that the store is up"
            in sound("storage.warc=s3://crawl/w", *at)["object store storage.warc"].detail
        )


def test_a_check_that_breaks_is_a_finding(sound, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: 1 / 0)
    assert "ZeroDivisionError" in sound()["disk room"].detail


def test_the_verb(sound, tmp_path, name_server, monkeypatch):
    monkeypatch.setattr("crawlkit.cli.verbs.plan.lock_file", lambda: tmp_path / "absent.lock")
    sets = ["--data", str(tmp_path), "--set", f"fetch.resolvers=['{name_server}']"]
    done = CliRunner().invoke(load_all(), ["doctor", *sets, "--json"])
    assert done.exit_code == 2
    assert json.loads(done.output)["missing"] == ["contact address"]
    done = CliRunner().invoke(
        load_all(), ["doctor", *sets, "--set", "agent.info_url=https://you.test/bot"]
    )
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "all is there")


def test_a_part_in_c_of_another_version_is_told(monkeypatch):
    pytest.importorskip("crawlkit.native._tree")
    assert [f.detail for f in doctor_install.check_c_extensions()] == ["built"]
    monkeypatch.setitem(native.APIS, "_tree", 0)
    assert [f.detail for f in doctor_install.check_c_extensions()][0].startswith(
        "built, but by another version"
    )
