"""How long pages say that they stay true (Cache-Control) moves their next visit as far as that was
found true of their host (I3).
"""

from __future__ import annotations

import pytest
from crawlkit.local.web_server import Reply

from tests.engines import run_on
from tests.rounds.row_web import DAY_S, EPOCH, RowWeb, page

pytestmark = [pytest.mark.rounds]
on = run_on("local")
HOSTS = {"true.example": "127.91.0.1", "false.example": "127.91.0.2"}
TWENTY_DAYS = ("Cache-Control", "public, max-age=1728000")


def test_a_host_that_keeps_its_word_is_left_alone_for_as_long(on, tmp_path):
    """First interval 7 days, then x 1.5 without a change: visits on day 7 and 17.5, both within the
    20 days. From then on the host that kept its word is visited after 20 days (its own interval
    would be 15.75), the other one, whose pages change, after half of its own.
    """
    with RowWeb(tmp_path / "crawl", HOSTS, on) as web:
        visit = {"n": 0}

        def changing(_) -> Reply:
            return page(f"state {visit['n']}", "", "", TWENTY_DAYS)

        for n in range(3):
            web.pages[f"http://true.example/{n}"] = page(f"number {n}", "", "", TWENTY_DAYS)
            web.pages[f"http://false.example/{n}"] = changing
        asked = []
        for visit["n"], day in enumerate((0, 7, 17.5, 37.4, 37.6)):
            before = len(web.log)
            web.run(EPOCH + day * DAY_S, [*web.pages] if not day else None)
            hosts = {u.split("/")[2] for u in web.log[before:] if "robots" not in u}
            asked.append(hosts)
        both = {*HOSTS}
        assert asked == [both, both, both, {"false.example"}, {"true.example"}]
        hosts = web.rows("hostdb", "fresh_true", "fresh_false", key="host")
        true, false = (hosts[h] for h in HOSTS)
        assert (true["fresh_false"], false["fresh_true"]) == (0, 0)
        assert true["fresh_true"] > 4 and false["fresh_false"] > 4
        rows = web.rows("crawldb", "next_fetch", "fresh_until", "interval_s")
        row = rows["http://true.example/0"]
        assert row["interval_s"] < 30 * DAY_S
        assert row["fresh_until"] == EPOCH + 57.6 * DAY_S
