"""Which pages that wait are rendered in a round: those of hosts and folders whose renders gain."""

from __future__ import annotations

from collections import Counter

from crawlkit.config import Config
from crawlkit.rules.frontier.due_rows import ROW
from crawlkit.rules.frontier.priority import score_sql, weight_sql
from crawlkit.rules.render.waiting_pages import renders_sql
from crawlkit.stages.generate import Orders, mark_orders

from tests.frames import collect, frame
from tests.stages.test_fold import row

NOW = 1_000_000.0
# host: renders, gains, folders that gain, folders that do not
HOSTS = {
    "new.example": None,
    "gains.example": (30, 20, ["/on/"], ["/off/"]),
    "vain.example": (9, 0, [], ["/off/", "/off2/", "/off3/"]),
}
PATHS = {"/on/": 6, "/off/": 6, "/new/": 6, "/": 6}


def planned(engine, **render: object) -> Counter[tuple[str, str]]:
    """How many rows of each host and folder are rendered."""
    cfg = Config.model_validate(
        {"render": {"enabled": True, **render}, "round": {"max_urls": 1000, "urls_per_host": 50}}
    )
    rows = [
        row(0, url_key=url.encode(), url=url, host=host, domain=host, flags=["render"])
        | {"state": "fetched", "capture_id": "c", "last_fetch": 10.0, "next_fetch": NOW + 1}
        for host in HOSTS
        for folder, n in PATHS.items()
        for url in [f"http://{host}{folder}{i}?to=/on/" for i in range(n)]
    ]
    names = ("renders", "render_gains", "render_on", "render_off")
    hosts = [
        {"host": h, **dict(zip(names, told, strict=True))} for h, told in HOSTS.items() if told
    ]
    marked = mark_orders(frame(engine, "crawldb", rows), Orders())
    scores = score_sql(cfg, NOW), weight_sql(cfg, "r.", "CAST(NULL AS double)")
    sql = renders_sql(cfg, NOW, NOW, *scores, ROW)
    ranks = frame(engine, "host_ranks", [])
    made = engine.query(sql, rows=marked, hostdb=frame(engine, "hostdb", hosts), host_ranks=ranks)
    urls = [r.url.split("/") for r in collect(made)]
    return Counter((u[2], f"/{u[3]}/" if len(u) > 4 and "?" not in u[3] else "/") for u in urls)


def test_pages_of_folders_that_gain(engine):
    got = planned(engine, share=0.1)
    assert {key: n for key, n in got.items() if key[0] == "gains.example"} == {
        ("gains.example", "/on/"): 6,
        ("gains.example", "/new/"): 2,
        ("gains.example", "/"): 2,
    }
    assert sum(n for (host, _), n in got.items() if host == "new.example") == 2
    assert "vain.example" not in {host for host, _ in got}


def test_no_more_than_their_share(engine):
    assert planned(engine, share=0.005).total() == 5
