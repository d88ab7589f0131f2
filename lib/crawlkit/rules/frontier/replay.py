"""A URL's row rebuilt from what is kept of its past: sightings and outcomes, in the
order of their rounds.

The same rules as in a round (rules/frontier/lifecycle.py) are applied one after the other, so the
row is that which the rounds left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crawlkit.config import Config
from crawlkit.outcomes import State
from crawlkit.rules.frontier.claims import HINT_SOURCES, HINTED
from crawlkit.rules.frontier.lifecycle import (
    Row,
    due_again,
    fetch_kind_of,
    found_row,
    is_settled,
    next_row,
)
from crawlkit.rules.frontier.schedule import FORCED
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.domains import host_bucket, registered_domain

ORDERED, FETCHED, READ = (
    0,
    1,
    2,
)  # phases of a round: seeds and commands, then outcomes, then what pages name


def replay(key: bytes, events: Iterable[Mapping[str, Any]], cfg: Config) -> Row:
    """The `crawldb` row (times as Unix s) of one URL.

    events: at least one, ordered by no, phase, seq.

    Each has no (number of the round), now (its nominal time), url, sent_url, depth, redirects,
    fetch_kind, priority_class (null: not known) and either `seen` (an outcome, as next_row takes
    it) or source, parent_key, boost, due_at, force, mode (a sighting).
    """
    row: Row | None = None
    state_no: int | None = None
    for e in events:
        if row is None:
            row = _first(key, e, cfg)
        row["depth"] = min(d for d in (row["depth"], e["depth"]) if d is not None)
        row["fetch_kind"] = fetch_kind_of((row["fetch_kind"], e["fetch_kind"]))
        if e["seen"] is None:
            _take_sighting(row, e, state_no)
            continue
        row |= {name: e[name] for name in ("redirects", "priority_class") if e[name] is not None}
        if is_settled(e["seen"]):
            row = next_row(row, e["seen"], e["now"], cfg) | {"updated_no": e["no"]}
            state_no = e["no"]
    assert row is not None  # an URL has at least one event
    return row


def _first(key: bytes, e: Mapping[str, Any], cfg: Config) -> Row:
    """A URL that was fetched without a page that names it was given by somebody: a seed."""
    host = host_of(e["url"])
    domain = registered_domain(host)
    special = e["fetch_kind"] not in (None, "page")
    given = e["priority_class"]
    cls = given if given is not None else 1 if special or e["seen"] is not None else 2
    return found_row(
        e["url"],
        key,
        host,
        domain,
        host_bucket(domain, cfg.frontier.buckets),
        source=e["source"] or "seed",
        now=e["now"],
        depth=e["depth"] or 0,
        parent_key=e["parent_key"],
        redirects=e["redirects"] or 0,
        priority_class=cls,
        boost=e["boost"] or 0.0,
        fetch_kind=e["fetch_kind"] or "page",
        sent_url=e["sent_url"],
        metadata=e.get("metadata"),
    ) | {"updated_no": e["no"]}


def _take_sighting(row: Row, e: Mapping[str, Any], state_no: int | None) -> None:
    """Another sighting, as the fold takes it (stages/fold.py): it counts if it is of a later round
    than the state.
    """
    if e["mode"] == "overwrite":
        row |= {name: e.get(name) for name in ("priority_class", "boost", "metadata")}
    elif e["mode"] == "update":
        row |= {
            "priority_class": min(row["priority_class"], e["priority_class"]),
            "boost": max(row["boost"], e["boost"]),
            "metadata": e.get("metadata") or row["metadata"],
        }
    if e["due_at"] is None or (state_no is not None and e["no"] <= state_no):
        return
    before = row["next_fetch"]
    row["next_fetch"] = due_again(row, e["due_at"], bool(e["force"]))
    if not e["force"] and e["source"] in HINT_SOURCES and row["next_fetch"] != before:
        row["flags"] = sorted({*(row["flags"] or ()), HINTED})
    if e["force"]:
        row["retries"] = 0
        row["flags"] = sorted({*(row["flags"] or ()), FORCED})
        if row["state"] in (State.DEAD, State.REFUSED):
            row["state"] = str(State.QUEUED)
