"""frontier: small histories through the life cycle, selections through the host cap."""

from __future__ import annotations

import time
from pathlib import Path

from crawlkit.config import Config, parse_config
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.lifecycle import due_again, found_row, has_changed, next_row
from crawlkit.rules.redirects import PERMANENT
from crawlkit.rules.urls import UrlPolicy
from crawlkit.stages.inject import read_lines

CFG = Config()
ERRORS = {"timeout": Reason.TIMEOUT, "dns_fail": Reason.DNS_FAIL, "nxdomain": Reason.DNS_NXDOMAIN, "refused": Reason.CONNECT_REFUSED, "connection_refused": Reason.CONNECT_REFUSED, "reset": Reason.DISCONNECTED}


def seen_of(step: dict, n: int) -> dict:
    status = step.get("status")
    seen = {"status": status, "capture_id": f"c{n}", "truncated": step.get("truncated"), "body_sha256": step.get("digest"), "text_sha256": None, "record_type": "response", "etag": step.get("etag"), "last_modified": step.get("last_modified")}
    if status is None:
        return seen | {"outcome": Outcome.FAILED, "reason": ERRORS.get(step.get("error"), Reason.TIMEOUT), "capture_id": None}
    if status == 304:
        return seen | {"outcome": Outcome.NOT_MODIFIED}
    if 200 <= status < 300:
        return seen | {"outcome": Outcome.FETCHED}
    if 300 <= status < 400:
        return seen | {"outcome": Outcome.REDIRECTED if step.get("location") else Outcome.HTTP_ERROR, "reason": Reason.HTTP_3XX}
    return seen | {"outcome": Outcome.HTTP_ERROR, "reason": Reason.HTTP_4XX if status < 500 else Reason.HTTP_5XX}


def run(history: list[dict], now: float = 0.0, interval_s: float | None = None) -> tuple[dict, list]:
    row = found_row("http://site.example/a", b"k" * 16, "site.example", "site.example", 0, source="seed", now=now)
    changed = []
    for n, step in enumerate(history):
        seen = seen_of(step, n)
        if seen["outcome"] in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
            # the first copy is news; a copy that was cut is no evidence
            changed.append(True if not row.get("body_sha256") and not seen["truncated"] else has_changed(row, seen))
        else:
            changed.append(None)
        row = next_row(row, seen, now, CFG)
        if n == 0 and interval_s:
            row["interval_s"] = interval_s
    return row, changed


def cap_of(cap: int | None, default: int) -> int:
    """The setting as the configuration reads it: 0 is a cap, a missing key the default."""
    return parse_config("" if cap is None else f"round: {{urls_per_host: {cap}}}", sets=(f"round.urls_per_host={default}",) if cap is None else ()).round.urls_per_host


def answer(given: dict, folder: Path) -> dict:
    if "history" in given:
        row, changed = run(given["history"], interval_s=given.get("interval_s"))
        last = given["history"][-1]
        return {"changed": changed, "digest": row.get("body_sha256"), "state": row["state"], "permanent": (last["status"] in PERMANENT) if last.get("status") else None, "retry_count": row["retries"],
                "last_error": row.get("error_type"), "last_status": row.get("last_status"), "interval_grows": (row.get("interval_s") or 0) > (given.get("interval_s") or 0), "n_fetch": row["n_fetch"]}
    if "fetch_rows" in given:
        row, _ = run(sorted(given["fetch_rows"], key=lambda r: r["end"]))
        return {"frontier_rows": len({r["url"] for r in given["fetch_rows"]}), "last_status": row["last_status"]}
    if "inject_twice" in given:
        known: dict[bytes, str] = {}
        duplicates = 0
        for lines in given["inject_twice"]:
            rows, _, counts = read_lines(lines, now=0.0, buckets=8, policy=UrlPolicy.of(CFG.urls))
            duplicates += counts["duplicates"] + sum(r["url_key"] in known for r in rows)
            known |= {r["url_key"]: r["url"] for r in rows}
        return {"frontier_urls": sorted(known.values()), "duplicates": duplicates}
    if "cap_per_host" in given:
        return {"selected": {h: min(n, cap_of(given["cap_per_host"], given["default_cap"])) for h, n in given["due"].items()}}
    if "cap_per_host_and_list" in given:
        per_list = []
        for n in given["due"].values():
            for _ in range(given["lists"]):
                per_list.append(min(n, given["cap_per_host_and_list"]))
                n -= per_list[-1]
        return {"per_list": per_list}
    if "deadline_passed" in given:
        rows = [found_row(f"http://site.example/{i}", b"k" * 16, "site.example", "site.example", 0, source="seed", now=0.0) for i in range(given["urls"])]
        seen = {"outcome": Outcome.DEFERRED, "reason": Reason.ROUND_TIME}
        return {"returned_unfetched": sum(next_row(r, seen, 0.0, CFG) == r for r in rows), "job_ends": True}
    if "leased_at" in given:
        row = found_row("http://site.example/", b"k" * 16, "site.example", "site.example", 0, source="seed", now=given["leased_at"])
        return {"due": not given["acknowledged"] and row["next_fetch"] <= given["now"] and given["now"] - given["leased_at"] > given["lease_s"], "state": row["state"]}
    if "seeds" in given:
        now, states, after = time.time(), {}, True
        for url in given["seeds"]:
            row = next_row(found_row(url, b"k" * 16, "h", "h", 0, source="seed", now=now), seen_of({"error": "nxdomain"}, 0), now, CFG)
            states[url], after = row["state"], after and row["next_fetch"] > now
        return {"states": states, "next_fetch_after_now": after}
    if "due_at" in given:
        return {"next_fetch": due_again(given["row"], given["due_at"], given.get("force", False))}
    raise KeyError(f"no such case: {sorted(given)}")
