"""A fetch does not start where its disk is nearly full, and says which disk that is."""

from __future__ import annotations

import pytest
from crawlkit.config import parse_config
from crawlkit.crawl.state import Crawl
from crawlkit.round import plan_stages
from crawlkit.round.counts import StageError


class _Opened:
    def __init__(self, folder, text):
        self.cfg = parse_config(text)
        self.crawl = Crawl(folder, self.cfg)


def test_the_message_names_the_place_that_is_full(tmp_path, monkeypatch):
    full = tmp_path / "full"
    opened = _Opened(tmp_path / "site", f"storage: {{warc: {full}}}")

    def on_disk(places):
        return min(1e6 if str(p).startswith(str(full)) else 1e12 for p in places)

    monkeypatch.setattr(plan_stages, "free_bytes", on_disk)
    with pytest.raises(StageError) as refused:
        plan_stages._check_room(opened)
    assert f"only 1 MB of space are left on the disk of {full}," in str(refused.value)
