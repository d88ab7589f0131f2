"""One small crawl for all tests of the exports."""

from __future__ import annotations

import pytest
from crawlkit.config import Config
from crawlkit.exports.source import Source

from tests.exports import sample


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crawl")
    sample.make(folder)
    return folder


@pytest.fixture
def source(data):
    return Source(data, Config())
