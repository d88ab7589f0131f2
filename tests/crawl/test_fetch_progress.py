"""What the tasks of a fetch say of themselves, added up."""

from __future__ import annotations

import json

import pytest
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.crawl.fetch_progress import read_progress

NOW = 1000.0


def task(at: float, recent: list[float], **more: object) -> dict[str, object]:
    counts = dict.fromkeys(("queued", "in_flight", "done", "failed", "bytes"), 0)
    return counts | {"began": 900.0, "at": at, "recent": recent, "waiting": []} | more


@pytest.mark.parametrize(
    ("tasks", "pages_per_s", "bytes_per_s"),
    [
        ([task(NOW, [10.0, 20, 1000])], 2.0, 100),
        # one that ended 10 s ago did its 20 rows in a second, which are 20 of the last 11 s
        ([task(NOW - 10, [1.0, 22, 1100]), task(NOW, [30.0, 30, 3000])], 3.0, 200),
        # one that ended a minute ago does nothing any more
        ([task(NOW - 60, [1.0, 500, 9]), task(NOW, [30.0, 30, 3000])], 1.0, 100),
        ([task(NOW, [0.0, 0, 0])], 0.0, 0),
    ],
)
def test_the_rates_of_the_last_half_minute(tmp_path, tasks, pages_per_s, bytes_per_s):
    objects = LocalObjects(tmp_path)
    for n, row in enumerate(tasks):
        objects.put(f"progress/r1/{n}.json", json.dumps(row).encode())
    found = read_progress(objects, "r1", NOW)
    assert found is not None
    assert found["recent"] == {"pages_per_s": pages_per_s, "bytes_per_s": bytes_per_s}


def test_the_time_to_go_is_that_of_the_longest_queue(tmp_path):
    objects = LocalObjects(tmp_path)
    queues = [["slow.test", 60, 1.0, "Crawl-delay", NOW], ["b.test", 100, 0.1, "own delay", NOW]]
    row = task(NOW, [30.0, 3000, 1], queued=160, waiting=queues)
    objects.put("progress/r1/0.json", json.dumps(row).encode())
    found = read_progress(objects, "r1", NOW)
    assert found is not None and found["eta_s"] == 60.0
    assert [w["host"] for w in found["waiting"]] == ["slow.test", "b.test"]
