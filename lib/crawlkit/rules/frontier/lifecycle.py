"""A URL's next row from its row and what became of its fetch.

Rows are dicts with the columns of `crawldb`, times as Unix seconds. The new row is a new dict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crawlkit.config import Config
from crawlkit.outcomes import Outcome, Reason, State
from crawlkit.rules.frontier.claims import HINTED
from crawlkit.rules.frontier.priority import class_of
from crawlkit.rules.frontier.retry import Action, url_retry
from crawlkit.rules.frontier.schedule import (
    FORCED,
    bounds_s,
    class_of_row,
    initial_interval_s,
    is_manual,
    next_interval_s,
)
from crawlkit.rules.http.conditional import fresh_for_s
from crawlkit.rules.render.foreign_origins import read_origins

Row = dict[str, Any]
HISTORY_LENGTH = 32
KEPT_BODY = (
    "body_sha256",
    "text_sha256",
    "payload_digest",
    "simhash",
    "content_type",
    "content_length",
    "capture_id",
    "fetched_at",
    "copy_url",
    "outlinks",
)
LOST = (Reason.SLOT_LOST, Reason.LEASE_LOST)
COPY = (
    "capture_id",
    "fetched_at",
    "copy_url",
)  # which stored body the row has; a revisit record has none
DIGESTS = {"body_sha256", "text_sha256", "payload_digest", "simhash"}
GIVEN_BACK = "given_back"  # flag: a task died with it, so it comes with those of class 1
RENDER_AGAIN = ("render_again", "render_again_2")  # flags: rendered once, twice more
DUPLICATE = "duplicate_of"  # flag: another page represents its cluster
TOO_LONG = "redirect_too_long"  # flag: its redirect was not followed
# What a URL is fetched as when it is named as several: a sitemap or feed before a page, a page
# before a requisite of pages. SQL; $1 is the window
FETCH_KIND = (
    "coalesce(max(CASE WHEN fetch_kind IN ('feed', 'sitemap') THEN fetch_kind END) $1,"
    " min(coalesce(fetch_kind, 'page')) $1)"
)
TRANSIENT_FLAGS = {
    "noindex",
    "nofollow",
    "noarchive",
    "unavailable",
    "opted_out",
    "truncated",
    "content_type_not_parsed",
    "needs_js",
    "render",
    *RENDER_AGAIN,
    "render_failed",
    "rendered",
}


def found_row(  # noqa: PLR0913 - the columns a new row can differ in
    url: str,
    url_key: bytes,
    host: str,
    domain: str,
    host_bucket: int,
    *,
    source: str,
    now: float,
    depth: int = 0,
    parent_key: bytes | None = None,
    redirects: int = 0,
    priority_class: int = 2,
    boost: float = 0.0,
    fetch_kind: str = "page",
    sent_url: str | None = None,
    metadata: str | None = None,
) -> Row:
    """The row of a URL seen for the first time: queued and due at once."""
    return {
        "url": url,
        "url_key": url_key,
        "host": host,
        "domain": domain,
        "host_bucket": host_bucket,
        "state": str(State.QUEUED),
        "priority_class": priority_class,
        "boost": boost,
        "depth": depth,
        "redirects": redirects,
        "parent_key": parent_key,
        "source": source,
        "fetch_kind": fetch_kind,
        "sent_url": sent_url,
        "metadata": metadata,
        "first_seen": now,
        "next_fetch": now,
        "retries": 0,
        "n_fetch": 0,
        "n_change": 0,
        "history": "",
        "flags": [],
    }


def fetch_kind_of(kinds: Iterable[str | None]) -> str:
    """FETCH_KIND of all kinds as which a URL is named."""
    named = {kind or "page" for kind in kinds}
    return max(named - {"page", "requisite"}, default=min(named))


def has_changed(row: Mapping[str, Any], seen: Mapping[str, Any]) -> bool | None:
    """Whether the content differs from the stored copy: by the text digest, or without text the
    body's (of a requisite the payload's).

    None is no evidence: a first fetch's counterpart is missing or one of the two is a cut body.
    """
    if seen["outcome"] == Outcome.NOT_MODIFIED or (
        seen.get("record_type") == "revisit" and seen.get("own_digest")
    ):
        return False
    if row.get("fetch_kind") == "requisite" and not seen.get("truncated"):  # its body is not read
        digests = row.get("payload_digest"), seen.get("payload_digest")
        return digests[0] != digests[1] if all(digests) else None
    if row.get("body_sha256") is None or seen.get("truncated"):
        return None
    if row.get("text_sha256") and seen.get("text_sha256"):
        if row["text_sha256"] != seen["text_sha256"]:
            return True
        is_list = row.get("fetch_kind") in ("sitemap", "feed")  # other dates are a claim alone
        return None if is_list and row["body_sha256"] != seen.get("body_sha256") else False
    if seen.get("body_sha256") is None:
        return None
    return bool(row["body_sha256"] != seen["body_sha256"])


def is_settled(seen: Mapping[str, Any]) -> bool:
    """Whether an outcome makes a state row: not if its URL was only put off."""
    return seen["outcome"] != Outcome.DEFERRED or seen["reason"] in LOST


def next_row(row: Mapping[str, Any], seen: Mapping[str, Any], now: float, cfg: Config) -> Row:
    """The row after a planned fetch. Times are Unix s.

    seen: outcome, reason, detail, status, sent_url (null: as `url`), and for stored copies
    record_type, truncated, body_sha256, text_sha256, payload_digest, simhash, etag, last_modified,
    content_type, content_length, capture_id, fetched_at, outlinks, page_flags, retry_wait_s,
    cache_control, fresh_believed (whether the host's are), host_class and score (as planned),
    is_duplicate. kind: of the planned request. render_worth: pages that need a browser are
    rendered.
    """
    outcome = Outcome(seen["outcome"])
    if outcome is Outcome.DEFERRED:  # given back as it was
        lost = {GIVEN_BACK} if seen["reason"] in LOST else set()
        return dict(row) | {"flags": sorted({*(row.get("flags") or ()), *lost})}
    if seen.get("kind") == "render":
        return dict(row) | {"flags": _flags_after_render(row, seen, outcome)}
    if outcome in (Outcome.HTTP_ERROR, Outcome.FAILED):
        new = _after_failure(dict(row), seen, now, cfg)
    elif outcome in (Outcome.ROBOTS_DENIED, Outcome.REFUSED):
        new = _after_refusal(row, seen, outcome, now, cfg)
    else:
        new = _after_answer(row, seen, outcome, now, cfg)
    new["flags"] = _flags(row, seen, outcome, cfg.fetch.max_redirects)
    new["state"] = str(new["state"])
    return new


def _class(row: Mapping[str, Any], seen: Mapping[str, Any], cfg: Config) -> str:
    return class_of_row(row, cfg.schedule, seen.get("host_class"))


def _first_interval_s(row: Mapping[str, Any], seen: Mapping[str, Any], cfg: Config) -> float:
    priority_class = class_of(row["priority_class"], seen.get("score"), cfg)
    return initial_interval_s(priority_class, _class(row, seen, cfg), cfg.schedule)


def _due(row: Mapping[str, Any], at: float, cfg: Config) -> float | None:
    return None if is_manual(row, cfg.schedule) else at


def _after_refusal(
    row: Mapping[str, Any], seen: Mapping[str, Any], outcome: Outcome, now: float, cfg: Config
) -> Row:
    """Robots may change, so the URL is fetched again after its first interval; a refusal stays."""
    new = dict(row) | {"error_type": str(seen["reason"]), "error_detail": seen.get("detail")}
    if outcome is Outcome.REFUSED:
        return new | {"state": State.REFUSED, "next_fetch": None}
    interval_s = _first_interval_s(row, seen, cfg)
    return new | {
        "state": State.ROBOTS_SKIPPED,
        "next_fetch": _due(row, now + interval_s, cfg),
        "interval_s": interval_s,
    }


def _after_answer(
    row: Mapping[str, Any], seen: Mapping[str, Any], outcome: Outcome, now: float, cfg: Config
) -> Row:
    """Fetched, not modified or redirected: the interval adapts to whether it changed."""
    first = not row.get("n_fetch")
    changed = None if outcome is Outcome.REDIRECTED else has_changed(row, seen)
    if first or not row.get("interval_s"):
        interval_s = _first_interval_s(row, seen, cfg)
    else:
        cls = _class(row, seen, cfg)
        interval_s = next_interval_s(row["interval_s"], changed, cls, cfg.schedule)
    fresh_s = _fresh_s(row, seen, outcome, cfg)
    believed_s = fresh_s if seen.get("fresh_believed") else 0.0
    letter = "N" if first else "?" if changed is None else "C" if changed else "U"
    new = dict(row) | {
        "state": State.REDIRECTED if outcome is Outcome.REDIRECTED else State.FETCHED,
        "error_type": None,
        "error_detail": None,
        "retries": 0,
        "interval_s": interval_s,
        "next_fetch": _due(row, now + max(interval_s, believed_s), cfg),
        "fresh_until": now + fresh_s if fresh_s else None,
        "last_fetch": now,
        "last_status": seen["status"],
        "n_fetch": (row.get("n_fetch") or 0) + 1,
        "n_change": (row.get("n_change") or 0) + (changed is True),
        "history": _history(row, letter),
    }
    if outcome is Outcome.FETCHED:
        _keep_copy(new, seen)
    if outcome is Outcome.FETCHED:
        new["sent_url"] = seen.get("sent_url")
    for name in ("etag", "last_modified"):
        if outcome is Outcome.FETCHED or seen.get(name):
            new[name] = seen.get(name)
    return new


def _fresh_s(
    row: Mapping[str, Any], seen: Mapping[str, Any], outcome: Outcome, cfg: Config
) -> float:
    """How long a page says that it stays true, up to the ceiling of its class; 0: it does not."""
    cls = _class(row, seen, cfg)
    if outcome is Outcome.REDIRECTED or cls in ("sitemap", "feed"):
        return 0.0
    return min(fresh_for_s(seen.get("cache_control")) or 0.0, bounds_s(cls, cfg.schedule)[1])


def _keep_copy(new: Row, seen: Mapping[str, Any]) -> None:
    own = seen.get("record_type") == "revisit" and seen.get("own_digest")
    for name in KEPT_BODY:
        if seen.get("truncated") and name in DIGESTS:
            # a cut body says nothing about change: the digests stay those of the last whole copy
            continue
        if own and (name in COPY or seen.get(name) is None):
            continue  # an unchanged copy keeps what is known of the stored one
        new[name] = seen.get(name)


def _history(row: Mapping[str, Any], letter: str) -> str:
    return ((row.get("history") or "") + letter)[-HISTORY_LENGTH:]


def _flags(
    row: Mapping[str, Any], seen: Mapping[str, Any], outcome: Outcome, max_redirects: int
) -> list[str]:
    flags = {*(row.get("flags") or ())} - {GIVEN_BACK, DUPLICATE, FORCED, HINTED}
    if seen.get("is_duplicate"):
        flags.add(DUPLICATE)
    if outcome in (Outcome.FETCHED, Outcome.NOT_MODIFIED, Outcome.REDIRECTED):
        flags.discard(TOO_LONG)
    if outcome is Outcome.REDIRECTED and (row.get("redirects") or 0) >= max_redirects:
        flags.add(TOO_LONG)
    if outcome is Outcome.FETCHED and not (
        seen.get("record_type") == "revisit" and seen.get("own_digest")
    ):
        flags -= TRANSIENT_FLAGS
        if seen.get("truncated"):
            flags.add("truncated")
    flags |= set(seen.get("page_flags") or ())
    is_whole = outcome in (Outcome.FETCHED, Outcome.NOT_MODIFIED)
    if is_whole and "needs_js" in flags and seen.get("render_worth"):
        flags = (flags - {"rendered", "render_failed"}) | {"render"}
    return sorted(flags)


def _flags_after_render(
    row: Mapping[str, Any], seen: Mapping[str, Any], outcome: Outcome
) -> list[str]:
    """A page whose browser asked for origins of other tasks is rendered again, with them: a script
    of another host, then the data that it asks for of a third.
    """
    flags = set(row.get("flags") or ()) - {"render"}
    if outcome is not Outcome.FETCHED:
        return sorted(flags | {"render_failed"})
    left = [flag for flag in RENDER_AGAIN if flag not in flags]
    if left and read_origins(seen.get("detail")):
        flags |= {"render", left[0]}
    return sorted(flags | {"rendered"})


def _after_failure(new: Row, seen: Mapping[str, Any], now: float, cfg: Config) -> Row:
    """Retry, later or dead.

    The digest of the stored copy stays: an error page is no evidence of change.
    """
    status, retries = (
        seen.get("status"),
        (new.get("retries") or 0) + (seen.get("status") != 429),
    )  # 429 is about the host
    host_wait_s = seen.get("retry_wait_s") or 0.0
    todo = url_retry(
        status,
        None if status else str(seen["reason"]),
        max(retries, 1),
        cfg.retry,
        host_wait_s=host_wait_s,
        sent_conditional=bool(new.get("etag") or new.get("last_modified")),
        has_copy=new.get("capture_id") is not None,
    )
    new |= {
        "error_type": str(seen["reason"]),
        "error_detail": seen.get("detail"),
        "last_status": status,
        "retries": retries,
        "history": _history(new, "E"),
    }
    if status:
        new |= {"last_fetch": now, "n_fetch": (new.get("n_fetch") or 0) + 1}
    if todo.action is Action.RETRY:
        return new | {"state": State.RETRYING, "next_fetch": now + todo.wait_s}
    if todo.action is Action.REFETCH_UNCONDITIONAL:
        return new | {
            "state": State.RETRYING,
            "next_fetch": now + todo.wait_s,
            "etag": None,
            "last_modified": None,
        }
    if todo.action is Action.DEAD or (
        todo.action is Action.NO_RETRY and new.get("capture_id") is None
    ):
        return new | {"state": State.DEAD, "next_fetch": None}
    # tried in vain, forbidden for now, or a copy is held: again at its own interval
    interval = new.get("interval_s") or _first_interval_s(new, seen, cfg)
    wait_s = todo.wait_s if status == 403 else max(todo.wait_s, interval)
    return new | {
        "state": State.RETRYING,
        "next_fetch": _due(new, now + wait_s, cfg),
        "interval_s": interval,
    }


def due_again(row: Mapping[str, Any], due_at: float | None, force: bool) -> float | None:
    """next_fetch of a known row after another sighting: an earlier due time wins if it lies after
    the last fetch; only force wakes the dead.
    """
    if force:
        return due_at
    next_fetch: float | None = row["next_fetch"]
    is_asleep = row["state"] in (State.DEAD, State.REFUSED)
    if due_at is None or is_asleep or (row.get("last_fetch") or 0) >= due_at:
        return next_fetch
    return due_at if next_fetch is None else min(next_fetch, due_at)
