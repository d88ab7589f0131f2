"""frontier: small histories through the life cycle, selections through the host cap."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from crawlkit.config import Config, Schedule, parse_config
from crawlkit.engine.local_engine import LocalEngine
from crawlkit.outcomes import Outcome, Reason
from crawlkit.rules.frontier.lifecycle import due_again, found_row, has_changed, next_row
from crawlkit.rules.http.redirects import PERMANENT
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize, host_of
from crawlkit.stages.generate import Orders, mark_orders, select_due
from crawlkit.stages.inject import read_lines

from tests.frames import frame

CFG = Config()
ERRORS = {
    "timeout": Reason.TIMEOUT,
    "dns_fail": Reason.DNS_FAIL,
    "servfail": Reason.DNS_FAIL,
    "nxdomain": Reason.DNS_NXDOMAIN,
    "refused": Reason.CONNECT_REFUSED,
    "connection_refused": Reason.CONNECT_REFUSED,
    "reset": Reason.DISCONNECTED,
}


def seen_of(step: dict, n: int) -> dict:
    status = step.get("status")
    seen = {
        "status": status,
        "capture_id": f"c{n}",
        "truncated": step.get("truncated"),
        "body_sha256": step.get("digest"),
        "text_sha256": None,
        "record_type": "response",
        "etag": step.get("etag"),
        "last_modified": step.get("last_modified"),
    }
    if status is None:
        return seen | {
            "outcome": Outcome.FAILED,
            "reason": ERRORS.get(step.get("error"), Reason.TIMEOUT),
            "capture_id": None,
        }
    if status == 304:
        return seen | {"outcome": Outcome.NOT_MODIFIED}
    if 200 <= status < 300:
        return seen | {"outcome": Outcome.FETCHED}
    if 300 <= status < 400:
        return seen | {
            "outcome": Outcome.REDIRECTED if step.get("location") else Outcome.HTTP_ERROR,
            "reason": Reason.HTTP_3XX,
        }
    return seen | {
        "outcome": Outcome.HTTP_ERROR,
        "reason": Reason.HTTP_4XX if status < 500 else Reason.HTTP_5XX,
    }


def run(
    history: list[dict], now: float = 0.0, interval_s: float | None = None, cls: str = "generic"
) -> tuple[dict, list]:
    cfg = (
        CFG
        if cls == "generic"
        else Config(schedule=Schedule(**{f"{cls}_hosts": ("site.example",)}))
    )
    row = found_row(
        "http://site.example/a",
        b"k" * 16,
        "site.example",
        "site.example",
        0,
        source="seed",
        now=now,
    )
    changed = []
    for n, step in enumerate(history):
        seen = seen_of(step, n)
        if seen["outcome"] in (Outcome.FETCHED, Outcome.NOT_MODIFIED):
            # the first copy is news; a copy that was cut is no evidence
            changed.append(
                True
                if not row.get("body_sha256") and not seen["truncated"]
                else has_changed(row, seen)
            )
        else:
            changed.append(None)
        row = next_row(row, seen, now, cfg)
        if n == 0 and interval_s:
            row["interval_s"] = interval_s
    return row, changed


def cap_of(cap: int | dict | None, host: str, default: int) -> int:
    """The setting as the configuration reads it: 0 is a cap, a missing key the default.

    By host: an operator's cap.
    """
    if isinstance(cap, dict):
        return cap.get(host, default)
    return parse_config(
        "" if cap is None else f"round: {{urls_per_host: {cap}}}",
        sets=(f"round.urls_per_host={default}",) if cap is None else (),
    ).round.urls_per_host


def select(due: dict[str, int], caps: dict[str, int]) -> dict[str, int]:
    """How many of each host's due URLs the stage generate takes."""
    engine = LocalEngine("500MB", 1, Path(tempfile.gettempdir()))
    rows = [
        found_row(u := f"http://{h}/{n}", u.encode(), h, h, 0, source="seed", now=0.0)
        for h, urls in due.items()
        for n in range(urls)
    ]
    taken = dict.fromkeys(due, 0)
    for cap in {*caps.values()}:
        cfg = Config.model_validate({"round": {"urls_per_host": cap, "minutes": 600}})
        of_cap = [r for r in rows if caps[r["host"]] == cap]
        crawldb = mark_orders(frame(engine, "crawldb", of_cap), Orders())
        hosts = [frame(engine, name, []) for name in ("hostdb", "host_ranks")]
        for r in select_due(crawldb, *hosts, cfg, 1.0, 1.0, 1, {}).rows():
            taken[r["host"]] += r["left_out"] is None
    return taken


def answer(given: dict, folder: Path) -> dict:
    if "history" in given:
        row, changed = run(
            given["history"], interval_s=given.get("interval_s"), cls=given.get("class", "generic")
        )
        last = given["history"][-1]
        return {
            "changed": changed,
            "digest": row.get("body_sha256"),
            "state": row["state"],
            "permanent": (last["status"] in PERMANENT) if last.get("status") else None,
            "retry_count": row["retries"],
            "last_error": row.get("error_type"),
            "last_status": row.get("last_status"),
            "interval_grows": (row.get("interval_s") or 0) > (given.get("interval_s") or 0),
            "n_fetch": row["n_fetch"],
        }
    if "fetch_rows" in given:
        steps: dict[str, list[dict]] = {}
        for step in sorted(given["fetch_rows"], key=lambda r: r["end"]):
            steps.setdefault(step["url"], []).append(step)
        ends = {url: run(history)[0] for url, history in steps.items()}
        return {
            "frontier_rows": len(ends),
            "states": {url: row["state"] for url, row in ends.items()},
            **{k: v for k, v in next(iter(ends.values())).items() if k == "last_status"},
        }
    if "inject_twice" in given:
        known: dict[bytes, str] = {}
        duplicates = 0
        for lines in given["inject_twice"]:
            rows, _, counts = read_lines(lines, now=0.0, buckets=8, policy=UrlPolicy.of(CFG.urls))
            duplicates += counts["duplicates"] + sum(r["url_key"] in known for r in rows)
            known |= {r["url_key"]: r["url"] for r in rows}
        return {"frontier_urls": sorted(known.values()), "duplicates": duplicates}
    if "cap_per_host_and_list" in given:
        cap, per_list = given["cap_per_host_and_list"], []
        left = dict(given["due"])
        for _ in range(given["lists"]):
            taken = select(left, dict.fromkeys(left, cap))
            left = {host: n - taken[host] for host, n in left.items()}
            per_list += taken.values()
        return {"per_list": per_list}
    if "due" in given:
        cap, default = given.get("cap_per_host"), given["default_cap"]
        return {
            "selected": select(given["due"], {h: cap_of(cap, h, default) for h in given["due"]})
        }
    if "deadline_passed" in given:
        rows = [
            found_row(
                f"http://site.example/{i}",
                b"k" * 16,
                "site.example",
                "site.example",
                0,
                source="seed",
                now=0.0,
            )
            for i in range(given["urls"])
        ]
        readable = given.get("robots_status", 200) < 500 and given.get("robots_status") != 429
        seen = {
            "outcome": Outcome.DEFERRED,
            "reason": Reason.ROUND_TIME if given["deadline_passed"] else Reason.ROBOTS_UNREACHABLE,
        }
        if readable and not given["deadline_passed"]:
            seen = seen_of({"status": 200, "digest": "d"}, 0)
        return {
            "returned_unfetched": sum(next_row(r, seen, 0.0, CFG) == r for r in rows),
            "job_ends": True,
        }
    if "leased_at" in given:
        row = found_row(
            "http://site.example/",
            b"k" * 16,
            "site.example",
            "site.example",
            0,
            source="seed",
            now=given["leased_at"],
        )
        return {
            "due": (
                not given["acknowledged"]
                and row["next_fetch"] <= given["now"]
                and given["now"] - given["leased_at"] > given["lease_s"]
            ),
            "state": row["state"],
        }
    if "seeds" in given:
        now, states, after = time.time(), {}, True
        for url in given["seeds"]:
            answer = given.get("dns", {}).get(host_of(canonicalize(url)), "nxdomain")
            seen = seen_of(
                (
                    {"error": answer}
                    if answer in ERRORS
                    else {"status": 200, "digest": "d", **given.get("web", {}).get(url, {})}
                ),
                0,
            )
            row = next_row(
                found_row(url, b"k" * 16, "h", "h", 0, source="seed", now=now), seen, now, CFG
            )
            states[url], after = row["state"], after and row["next_fetch"] > now
        return {"states": states, "next_fetch_after_now": after}
    if "due_at" in given:
        return {"next_fetch": due_again(given["row"], given["due_at"], given.get("force", False))}
    raise KeyError(f"no such case: {sorted(given)}")
