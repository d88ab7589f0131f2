"""A small crawl whose tables are written by hand."""

import pytest

from tests.control.smallcrawl import fill, make_crawl


@pytest.fixture
def crawl(tmp_path):
    crawl = make_crawl(tmp_path)
    fill(crawl)
    return crawl
