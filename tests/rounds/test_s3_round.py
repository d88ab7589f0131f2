"""One whole round with state, WARC files and Delta tables in S3: its tables are those of the same
round on a folder (test_s3_crawl.py has the kills, the commands and the known answer there).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from crawlkit.upkeep.maintain import maintain

from tests.rounds.crawlproc import FIXED, differences, facts
from tests.rounds.s3_world import NEEDS_S3_JARS, S3World, go, s3_server

pytestmark = [pytest.mark.rounds, NEEDS_S3_JARS]


@pytest.fixture(scope="module", params=["moto", pytest.param("versitygw", marks=pytest.mark.slow)])
def endpoint(request, tmp_path_factory):
    with s3_server(request.param, tmp_path_factory.mktemp("gateway")) as url:
        yield url


def test_a_round_in_s3_is_that_on_a_folder(on, endpoint, on_a_folder, tmp_path):
    left = set(Path(tempfile.gettempdir()).glob("crawlkit-*/*.parquet"))  # by others
    with S3World(on, tmp_path, endpoint) as w:
        job = w.job(on)
        go(job)
        w.is_sound(on, on_a_folder)
        assert maintain(job, time.time())["orphans_removed"] == 0
        assert differences({n: on_a_folder[n] for n in FIXED}, facts(w.data)) == []
        assert not (tmp_path / "crawl").exists()  # nothing of it is on this machine
        assert set(job.crawl.scratch.rglob("*.parquet")) <= left
