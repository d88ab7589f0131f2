"""Pings of webmasters (IndexNow) that wait for a round: `control/indexnow/HOST/ID.json`.

One object for each key file that a ping names. The file is a URL of the next round like any other;
the round after it knows what came of that, and takes the URLs as hints, or refuses them. So nothing
is fetched outside a round, and a ping costs its host one request, however often it is sent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.lake.table_reader import Part
from crawlkit.adapters.store.objects import Objects
from crawlkit.adapters.store.pending_commands import put_pending
from crawlkit.crawl.json_objects import change_object, read_object
from crawlkit.model import Round
from crawlkit.outcomes import Reason, State
from crawlkit.rules.feeds.ping_keys import key_digests
from crawlkit.rules.url.canonical import host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain

PINGS = "control/indexnow/"
MAX_KEYS = 10_000  # of all hosts
MAX_KEYS_OF_HOST = 10
MAX_WAITING_URLS = 10_000  # of one key
PROVEN_S = 30 * 86_400.0  # then the key file is read again
REFUTED_S = 86_400.0  # so long it is not asked for again
PATIENCE_S = 7 * 86_400.0  # for a file that no round could read

Ping = dict[str, Any]


class TooMany(Exception):
    """Too many pings wait."""


def ping_key(host: str, key: str, location: str) -> str:
    """Where the pings of a key file wait."""
    name = hashlib.sha256(f"{key} {location}".encode()).hexdigest()[:32]
    return f"{PINGS}{host}/{name}.json"


def take_ping(objects: Objects, key: str, location: str, urls: Sequence[str], now: float) -> Ping:
    """Let canonical URLs of one host wait for the next round; the ping as it is then.

    Its state is waiting (the key file is to be read), proven, or refuted: then it takes none.
    now: Unix s. Raises TooMany, OSError.
    """
    host = host_of(location)
    place = ping_key(host, key, location)
    if read_object(objects, place) is None and (
        len(objects.list(f"{PINGS}{host}/")) >= MAX_KEYS_OF_HOST
        or len(objects.list(PINGS)) >= MAX_KEYS
    ):
        raise TooMany(f"{host}: too many keys wait")

    def add(ping: Ping | None) -> Ping | None:
        if ping is None or _is_old(ping, now):
            waiting = ping["urls"] if ping is not None and ping["state"] == "proven" else []
            ping = {"key": key, "location": location, "state": "waiting", "at": now}
            ping |= {"urls": waiting, "reason": None}
            ping |= dict.fromkeys(("asked_no", "asked_at", "judged_no"))
        if ping["state"] == "refuted":
            return None
        merged = list(dict.fromkeys([*ping["urls"], *urls]))
        if len(merged) > MAX_WAITING_URLS:
            raise TooMany(f"{host}: over {MAX_WAITING_URLS} URLs wait for the next round")
        return ping | {"urls": merged}

    ping = change_object(objects, place, add)
    assert ping is not None
    return ping


def _is_old(ping: Ping, now: float) -> bool:
    lasts_s = {"proven": PROVEN_S, "refuted": REFUTED_S}.get(ping["state"])
    return lasts_s is not None and now - ping["at"] > lasts_s


def drop_pings(objects: Objects, is_of: Callable[[str], bool], dry_run: bool = False) -> int:
    """Delete pings whose key file a predicate takes, and the URLs that it takes out of others; how
    many pings. dry_run: they stay.
    """
    n = 0
    for place in objects.list(PINGS):
        ping = read_object(objects, place) or {"location": "", "urls": []}
        taken = {u for u in ping["urls"] if is_of(u)}
        is_whole = is_of(ping["location"])
        n += is_whole or bool(taken)
        if is_whole and not dry_run:
            objects.delete(place)
        elif taken and not dry_run:
            _change(objects, place, {}, taken)
    return n


def ping_hosts(objects: Objects) -> set[str]:
    """Hosts of which pings are kept."""
    return {key.removeprefix(PINGS).partition("/")[0] for key in objects.list(PINGS)}


def settle_pings(
    objects: Objects, tables: Tables, round_: Round, buckets: int, clock_now: float
) -> list[dict[str, Any]]:
    """Make commands of what waits: key files that are to be read, and URLs whose key is proven.

    Returns rows of `rejects` (without round) of the URLs whose key the round before has refuted.
    Repeating it in a round changes nothing: a command's name tells what is in it. Verdicts that
    hold no more are deleted: they make room for other keys. clock_now: Unix s, as in `take_ping`.
    The caller holds the commit lock.
    """
    refused: list[dict[str, Any]] = []
    pings = {k: p for k in objects.list(PINGS) if (p := read_object(objects, k)) is not None}
    known = _key_files(tables, [p for p in pings.values() if p["state"] == "waiting"], buckets)
    for place, ping in sorted(pings.items()):
        if ping["state"] == "waiting" and ping["asked_no"] is None:
            _order(objects, round_, "recrawl", [ping["location"]])
            _change(objects, place, {"asked_no": round_.no, "asked_at": round_.now})
        elif ping["state"] == "waiting" and ping["asked_no"] < round_.no:
            found = judge_key(ping, known.get(url_key(ping["location"])), round_.now)
            if found is not None:
                found |= {"at": clock_now, "judged_no": round_.no}
                _change(objects, place, found)
                ping |= found
        if ping["state"] == "refuted" and ping["judged_no"] == round_.no:
            refused += _refused(ping)
        if ping["state"] == "proven" and ping["urls"]:
            _order(objects, round_, "hint", ping["urls"])
            _change(objects, place, {}, {*ping["urls"]})
        elif _is_old(ping, clock_now):
            objects.delete(place)
    return refused


def _change(objects: Objects, place: str, fields: Ping, taken: Collection[str] = ()) -> None:
    """Set fields of a ping, and take URLs out of it."""

    def change(ping: Ping | None) -> Ping | None:
        if ping is None:
            return None
        return ping | {"urls": [u for u in ping["urls"] if u not in taken]} | fields

    change_object(objects, place, change)


def _refused(ping: Ping) -> list[dict[str, Any]]:
    detail = f"IndexNow: {ping['location']}: {ping['reason']}"
    return [{"item": u, "reason": str(Reason.KEY_UNPROVEN), "detail": detail} for u in ping["urls"]]


def _order(objects: Objects, round_: Round, verb: str, urls: Sequence[str]) -> None:
    """A command for this round."""
    arguments = json.dumps({"source": "indexnow", "urls": list(urls)}, sort_keys=True)
    name = hashlib.sha256(f"{verb} {arguments}".encode()).hexdigest()[:16]
    row = {"command_id": f"indexnow-{name}-{round_.id}", "at": round_.now, "verb": verb}
    row |= {"target": urls[0], "arguments": arguments, "actor": f"indexnow:{host_of(urls[0])}"}
    put_pending(objects, row)


def judge_key(ping: Ping, row: Mapping[str, Any] | None, now: float) -> Ping | None:
    """state and reason of a ping, by its key file's newest state row (None: there is none).

    None: no round has read it yet. now: nominal time, Unix s.
    """
    is_late = now - ping["asked_at"] > PATIENCE_S
    if row is None or row["updated_no"] < ping["asked_no"] or row["state"] == State.QUEUED:
        return {"state": "refuted", "reason": "no round could read it"} if is_late else None
    if row["state"] == State.FETCHED:
        if row["body_sha256"] in key_digests(ping["key"]):
            return {"state": "proven", "reason": None}
        return {"state": "refuted", "reason": "the file is not the key"}
    if row["state"] == State.RETRYING and not is_late:
        return None
    return {"state": "refuted", "reason": row["error_type"] or row["state"]}


def _key_files(tables: Tables, pings: Iterable[Ping], buckets: int) -> dict[bytes, dict[str, Any]]:
    """The newest state rows of the key files of some pings."""
    urls = [p["location"] for p in pings if p["asked_no"] is not None]
    if not urls:
        return {}
    places = sorted({host_bucket(registered_domain(host_of(u)), buckets) for u in urls})
    part: Part = {"host_bucket": places, "url_key": [url_key(u) for u in urls]}
    columns = ["url_key", "state", "updated_no", "body_sha256", "error_type"]
    rows = tables.rows("crawldb", columns, part)
    rows += tables.rows("crawldb_log", columns, {**part, "kind": ["state"]})
    return {r["url_key"]: r for r in sorted(rows, key=lambda r: r["updated_no"])}
