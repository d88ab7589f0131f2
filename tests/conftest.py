"""One Spark session for all Spark tests; loopback only."""

from __future__ import annotations

import pytest

from crawlkit.config import SparkConfig


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from crawlkit.spark import build_session

    session = build_session(SparkConfig(), "crawlkit tests", tmp_path_factory.mktemp("spark"), quick=True)
    yield session
    session.stop()
