"""One Spark session for all Spark tests; loopback only."""

from __future__ import annotations

import pytest

from crawlkit.config import SparkConfig
from tests.known_crawl import known_crawl  # noqa: F401  (a fixture)


# Files whose tests wait (for leases, deadlines, processes): not part of the quick run, but of every `make test`.
WAITING = ("test_slot", "test_lease", "test_bad_input_cli", "test_engine_requests", "test_fetcher", "test_dns", "test_fakeweb")

LONG = ("test_kills", "test_submit")  # minutes each: make test-slow


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem.startswith(WAITING) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.ci)
        elif item.path.stem in LONG:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from crawlkit.jars import s3_jar_folder
    from crawlkit.spark import build_session

    session = build_session(SparkConfig(), "crawlkit tests", tmp_path_factory.mktemp("spark"), quick=True, s3=s3_jar_folder().is_dir())
    yield session
    session.stop()
