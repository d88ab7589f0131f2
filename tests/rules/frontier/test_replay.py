"""A URL's row from its past: rows worked out by hand from the life cycle (REQUIREMENTS B1,
D4, I1).
"""

from __future__ import annotations

from crawlkit.config import Config
from crawlkit.rules.frontier.replay import FETCHED, ORDERED, READ, replay
from crawlkit.rules.url.canonical import url_key

URL, DAY_S = "http://a.example/x", 86_400.0
KEY = url_key(URL)
NULL = dict.fromkeys(
    (
        "source",
        "parent_key",
        "boost",
        "sent_url",
        "due_at",
        "force",
        "mode",
        "depth",
        "redirects",
        "fetch_kind",
        "priority_class",
        "seen",
    )
)


def found(no: int, now: float, phase: int = READ, **given) -> dict:
    return (
        NULL
        | {
            "no": no,
            "phase": phase,
            "now": now,
            "url": URL,
            "source": "link",
            "fetch_kind": "page",
            "depth": 1,
            "redirects": 0,
        }
        | given
    )


def fetched(
    no: int,
    now: float,
    outcome: str = "fetched",
    status: int | None = 200,
    body: str | None = "b1",
    **seen,
) -> dict:
    told = {
        "outcome": outcome,
        "status": status,
        "reason": None,
        "record_type": "response",
        "body_sha256": body,
        "text_sha256": body,
        "capture_id": f"c{no}",
        "page_flags": [],
        "truncated": None,
    } | seen
    return NULL | {
        "no": no,
        "phase": FETCHED,
        "now": now,
        "url": URL,
        "fetch_kind": "page",
        "depth": 1,
        "redirects": 0,
        "priority_class": 2,
        "seen": told,
    }


def test_a_url_that_was_only_linked_is_queued_at_its_least_depth():
    row = replay(KEY, [found(1, 100.0, depth=4), found(3, 300.0, depth=2)], Config())
    assert (
        row["state"],
        row["depth"],
        row["first_seen"],
        row["next_fetch"],
        row["n_fetch"],
        row["updated_no"],
        row["priority_class"],
    ) == ("queued", 2, 100.0, 100.0, 0, 1, 2)


def test_fetched_again_and_changed():
    row = replay(KEY, [found(1, 0.0), fetched(2, 10.0), fetched(3, 20.0, body="b2")], Config())
    # class 2 starts at 30 days, which is the ceiling of a generic host; a change halves it
    assert (row["state"], row["n_fetch"], row["n_change"], row["history"], row["interval_s"]) == (
        "fetched",
        2,
        1,
        "NC",
        15 * DAY_S,
    )
    assert (row["last_fetch"], row["next_fetch"], row["capture_id"], row["updated_no"]) == (
        20.0,
        20.0 + 15 * DAY_S,
        "c3",
        3,
    )


def test_fetched_without_a_sighting_it_was_a_seed():
    row = replay(
        KEY, [fetched(1, 5.0) | {"depth": 0, "priority_class": 1}, found(1, 5.0)], Config()
    )
    assert (
        row["source"],
        row["depth"],
        row["priority_class"],
        row["first_seen"],
        row["interval_s"],
    ) == ("seed", 0, 1, 5.0, 7 * DAY_S)


def test_given_back_it_stays_as_it_was_but_is_known():
    row = replay(KEY, [fetched(1, 5.0, "deferred", None, None)], Config())
    assert (row["state"], row["n_fetch"], row.get("last_fetch"), row["next_fetch"]) == (
        "queued",
        0,
        None,
        5.0,
    )


def test_a_newer_sighting_makes_it_due_and_one_of_the_same_round_does_not():
    past = [found(1, 0.0), fetched(2, 10.0)]
    assert replay(KEY, [*past, found(3, 20.0, due_at=20.0)], Config())["next_fetch"] == 20.0
    assert (
        replay(KEY, [*past, found(2, 10.0, due_at=20.0)], Config())["next_fetch"]
        == 10.0 + 30 * DAY_S
    )
    assert (
        replay(KEY, [*past, found(3, 20.0, due_at=9.0)], Config())["next_fetch"]
        == 10.0 + 30 * DAY_S
    )  # before the last fetch


def test_only_an_operator_wakes_the_dead():
    past = [found(1, 0.0), fetched(2, 10.0, "http_error", 404, None, reason="http_404")]
    assert replay(KEY, past, Config())["state"] == "dead"
    assert replay(KEY, [*past, found(3, 20.0, due_at=20.0)], Config())["next_fetch"] is None
    row = replay(
        KEY,
        [
            *past,
            found(3, 20.0, ORDERED, due_at=20.0, force=True, source="operator", priority_class=1),
        ],
        Config(),
    )
    assert (row["state"], row["next_fetch"], row["last_status"]) == ("queued", 20.0, 404)


def test_seeds_change_class_and_boost_as_their_mode_says():
    past = [found(1, 0.0, ORDERED, priority_class=1, boost=5.0, source="seed", depth=0)]
    kept = replay(
        KEY, [*past, found(2, 9.0, ORDERED, priority_class=3, boost=1.0, mode="keep")], Config()
    )
    assert (kept["priority_class"], kept["boost"]) == (1, 5.0)
    updated = replay(
        KEY, [*past, found(2, 9.0, ORDERED, priority_class=0, boost=1.0, mode="update")], Config()
    )
    assert (updated["priority_class"], updated["boost"]) == (0, 5.0)
    told = replay(
        KEY,
        [*past, found(2, 9.0, ORDERED, priority_class=3, boost=1.0, mode="overwrite")],
        Config(),
    )
    assert (told["priority_class"], told["boost"]) == (3, 1.0)


def test_a_feed_is_a_feed_whoever_links_it_as_a_page():
    assert (
        replay(KEY, [found(1, 0.0), found(2, 1.0, fetch_kind="feed"), found(3, 2.0)], Config())[
            "fetch_kind"
        ]
        == "feed"
    )
