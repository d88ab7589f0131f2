"""One Spark session and one local engine for all tests of a process; loopback only."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.engines import ENGINES, run_on

# How long an example takes is the machine's affair: under load, laws failed by it alone.
settings.register_profile("whole", deadline=None)
settings.register_profile("quick", max_examples=25, deadline=None)  # `make check`
settings.load_profile("whole")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups by the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers take whole groups: one has all tests of the Spark session, and a file's other tests
    stay together, since they share its fixtures.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            group = "spark" if item.get_closest_marker("spark") else item.path.stem
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from crawlkit.config import SparkConfig
    from crawlkit.runtime.jars import s3_jar_folder
    from crawlkit.runtime.session import build_session

    from tests.servers.s3_server import KEYS

    os.environ |= (
        KEYS  # the JVM and its workers know the S3 servers of later tests from their start
    )

    session = build_session(
        SparkConfig(),
        "crawlkit tests",
        tmp_path_factory.mktemp("spark"),
        quick=True,
        s3=s3_jar_folder().is_dir(),
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def local_engine(tmp_path_factory):
    from crawlkit.engine.local_engine import LocalEngine

    made = LocalEngine("800MB", 2, tmp_path_factory.mktemp("local"))
    yield made
    made.stop()


@pytest.fixture(params=ENGINES)
def engine(request):
    """An engine: the test runs on each."""
    if request.param == "local":
        return request.getfixturevalue("local_engine")
    from crawlkit.engine.spark_engine import SparkEngine

    return SparkEngine(request.getfixturevalue("spark"))


on = run_on("local", "spark")


@pytest.fixture(scope="session")
def known_crawl(on, tmp_path_factory):
    from tests.rounds.known_crawl import known

    folder = tmp_path_factory.mktemp("known")
    sets = ("spark.small_bytes=0",) if "spark" in on else ()  # all of it by Spark itself
    return known(on, folder, folder / "crawl", sets)
