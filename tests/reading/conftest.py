"""One small crawl for all tests of the room."""

from __future__ import annotations

import gzip

import crawlkit
import pytest

from tests.exports import sample

TEXT = "tide tables, high water at noon\n" * 40
PLAIN = ("Content-Type", "text/plain; charset=utf-8")
MORE = [
    (
        "http://site.test/gz",
        200,
        [PLAIN, ("Content-Encoding", "gzip")],
        gzip.compress(TEXT.encode(), mtime=0),
    ),
    ("http://site.test/latin", 200, [("Content-Type", "text/plain;charset=latin1")], b"caf\xe9"),
    ("http://site.test/esc", 200, [PLAIN], b"a\x1b]0;owned\x07b\n"),
]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("crawl")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "PAGES", [*sample.PAGES, *MORE])
        sample.make(folder)
    return folder


@pytest.fixture
def crawl(data):
    return crawlkit.open(data)
