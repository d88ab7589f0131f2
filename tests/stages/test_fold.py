"""The fold against a plain Python reading of its contract."""

from __future__ import annotations

import random

import pytest
from crawlkit.rules.frontier.lifecycle import due_again, fetch_kind_of, found_row
from crawlkit.stages.fold import (
    ROW,
    bucket_summary,
    live_log,
    log_summary,
    merge_summaries,
    reduce_rows,
)

from tests.frames import collect, frame


def row(key: int, **kw):
    return (
        found_row(
            f"http://h.example/{key}",
            bytes([key]) * 16,
            "h.example",
            "h.example",
            key % 2,
            source="link",
            now=100.0,
            depth=5,
        )
        | {"updated_no": 1}
        | kw
    )


def log(key: int, no: int, kind: str, writer: str = "parse", **kw):
    return (
        row(key, updated_no=no)
        | {
            "round_id": f"r{no}",
            "writer": writer,
            "kind": kind,
            "seq": 0,
            "force": False,
            "mode": "keep",
        }
        | kw
    )


def as_dict(df):
    return {bytes(r.url_key)[0]: r for r in collect(df)}


def test_newest_state_wins_and_found_rows_only_add(engine):
    base = [
        row(1, state="fetched", updated_no=1, last_fetch=150.0, next_fetch=900.0),
        row(2, depth=5),
    ]
    rows = [
        log(1, 2, "found", depth=2),
        log(1, 2, "state", "update", state="dead", next_fetch=None, last_fetch=200.0),
        log(2, 2, "found", depth=9),
        log(3, 2, "found", depth=4),
        log(3, 3, "found", depth=3),
    ]
    out = as_dict(reduce_rows(frame(engine, "crawldb", base), frame(engine, "crawldb_log", rows)))
    assert (out[1].state, out[1].depth, out[1].next_fetch) == ("dead", 2, None)
    assert (out[2].state, out[2].depth) == ("queued", 5)
    assert (out[3].state, out[3].depth, out[3].updated_no) == ("queued", 3, 2)


KINDS = {  # as what a URL is fetched that is named as these (null: a page)
    "page requisite": "page",
    "requisite": "requisite",
    "null requisite": "page",
    "feed page requisite": "feed",
    "feed requisite": "feed",
    "feed sitemap page": "sitemap",
    "null": "page",
}


def test_what_a_url_is_fetched_as(engine):
    named = {names: [None if k == "null" else k for k in names.split()] for names in KINDS}
    rows = [
        log(n, no, "found", fetch_kind=kind)
        for n, kinds in enumerate(named.values())
        for no, kind in enumerate(kinds, 2)
    ]
    out = as_dict(reduce_rows(frame(engine, "crawldb", []), frame(engine, "crawldb_log", rows)))
    got = {names: out[n].fetch_kind for n, names in enumerate(named)}
    assert got == KINDS == {names: fetch_kind_of(kinds) for names, kinds in named.items()}


def test_a_signal_makes_due_and_force_wakes_the_dead(engine):
    base = [
        row(k, state=s, updated_no=4, last_fetch=400.0, next_fetch=n)
        for k, s, n in (
            (1, "fetched", 900.0),
            (2, "dead", None),
            (3, "fetched", 900.0),
            (4, "dead", None),
        )
    ]
    rows = [
        log(1, 5, "found", due_at=500.0),
        log(2, 5, "found", due_at=500.0),
        log(3, 5, "found", due_at=300.0),
        log(4, 5, "found", due_at=500.0, force=True),
    ]
    out = as_dict(reduce_rows(frame(engine, "crawldb", base), frame(engine, "crawldb_log", rows)))
    got = {k: (r.state, r.next_fetch) for k, r in out.items()}
    assert got == {
        1: ("fetched", 500.0),
        2: ("dead", None),
        3: ("fetched", 900.0),
        4: ("queued", 500.0),
    }
    for k, r in out.items():  # the pure rule says the same
        b, signal = base[k - 1], rows[k - 1]
        assert due_again(b, signal["due_at"], signal["force"]) == got[k][1]


@pytest.mark.waits
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_folding_in_any_order_or_twice_is_the_same(engine, seed):
    rng = random.Random(seed)
    events = []
    for no in range(2, 7):
        for key in range(1, 9):
            if rng.random() < 0.5:
                events.append(
                    log(
                        key,
                        no,
                        "found",
                        depth=rng.randrange(9),
                        due_at=rng.choice([None, 100.0 * no]),
                    )
                )
            if rng.random() < 0.4:
                events.append(
                    log(
                        key,
                        no,
                        "state",
                        "update",
                        state=rng.choice(["fetched", "dead", "retrying"]),
                        last_fetch=100.0 * no,
                        next_fetch=rng.choice([None, 1000.0]),
                        depth=rng.randrange(9),
                    )
                )
    empty = frame(engine, "crawldb", [])
    whole = reduce_rows(empty, frame(engine, "crawldb_log", events))
    steps = empty
    for no in range(2, 7):
        mine = [e for e in events if e["updated_no"] == no]
        rng.shuffle(mine)
        steps = reduce_rows(
            steps,
            frame(
                engine,
                "crawldb_log",
                mine + [e for e in events if e["updated_no"] < no and rng.random() < 0.3],
            ),
        )
    # a later sighting of a URL first folded in pieces may differ in nothing but where a due time
    # came from
    cols = [c for c in ROW if c not in ("next_fetch",)]
    assert sorted(map(str, whole.select("url_key", *cols).rows())) == sorted(
        map(str, steps.select("url_key", *cols).rows())
    )
    again = reduce_rows(whole, frame(engine, "crawldb_log", events))
    assert sorted(map(str, again.rows())) == sorted(map(str, whole.rows()))


def test_live_log_leaves_out_what_a_bucket_has_folded(engine):
    rows = [log(1, 2, "found"), log(1, 3, "found"), log(2, 2, "found")]
    buckets = frame(
        engine, "buckets", [{"host_bucket": 1, "rows": 1, "log_rows": 0, "folded_through": 2}]
    )
    kept = (
        live_log(frame(engine, "crawldb_log", rows), buckets)
        .select("host_bucket", "updated_no")
        .rows()
    )
    assert sorted((r["host_bucket"], r["updated_no"]) for r in kept) == [(0, 2), (1, 3)]


def test_a_sitemap_or_feed_once_told_from_a_page_stays_one(engine):
    rows = [
        log(1, 2, "found", fetch_kind="page"),
        log(1, 3, "found", fetch_kind="feed"),
        log(2, 2, "found", fetch_kind="sitemap"),
        log(2, 3, "found"),
        log(3, 2, "found"),
    ]
    base = [row(1, state="fetched"), row(4, state="fetched", fetch_kind="feed")]
    rows += [log(4, 2, "found")]
    out = as_dict(reduce_rows(frame(engine, "crawldb", base), frame(engine, "crawldb_log", rows)))
    assert {k: r.fetch_kind for k, r in out.items()} == {
        1: "feed",
        2: "sitemap",
        3: "page",
        4: "feed",
    }


def test_a_bucket_without_live_rows_is_folded_through_what_is_in():
    row = {"rows": 3, "log_rows": 0, **{f"next_due_{c}": None for c in range(4)}}
    known = {
        1: {"host_bucket": 1, "folded_through": 2, **row},
        2: {"host_bucket": 2, "folded_through": 2, **row},
        3: {"host_bucket": 3, "folded_through": 9, **row},
    }
    waiting = [{"host_bucket": 2, "log_rows": 5, **{f"next_due_{c}": None for c in range(4)}}]
    out = merge_summaries(known, {4: {"host_bucket": 4, "folded_through": 7, **row}}, waiting, 7)
    assert {b: r["folded_through"] for b, r in out.items()} == {
        1: 7,
        2: 2,
        3: 9,
        4: 7,
    }  # of 2 rows from 3 on are not in the base yet


def test_a_page_that_waits_to_be_rendered_is_due_where_that_is_worth_it(engine):
    hosts = {"new": None, "gains": (3, 1), "in-vain": (9, 0), "barred": (3, 3), "failing": (3, 3)}
    rows = [
        row(n, host=host, host_bucket=n, flags=["render"], state="fetched", capture_id="c")
        | {"last_fetch": 100.0, "next_fetch": 900.0, "priority_class": 2}
        for n, host in enumerate(hosts)
    ]
    rows[4]["state"] = "retrying"  # its copy is not the newest: first it is fetched again
    hostdb = [
        {"host": host, "renders": told[0], "render_gains": told[1], "blacklisted": host == "barred"}
        for host, told in hosts.items()
        if told
    ]
    base, states = frame(engine, "crawldb", rows), [log(0, 2, "state", "update") | r for r in rows]
    known = frame(engine, "hostdb", hostdb)

    def due(summary):
        return {r["host_bucket"]: r["next_due_2"] for r in summary}

    at_once = {0: 100.0, 1: 100.0, 2: 900.0, 3: 900.0, 4: 900.0}
    assert due(bucket_summary(base, 1, known)) == at_once
    assert due(log_summary(frame(engine, "crawldb_log", states), known)) == at_once
    assert due(bucket_summary(base, 1, None)) == dict.fromkeys(range(5), 900.0)
