"""schedule: outcomes in a row through the interval rule and the life cycle."""

from __future__ import annotations

import datetime
from pathlib import Path

from crawlkit.config import Config, Schedule
from crawlkit.outcomes import Reason
from crawlkit.rules.frontier.lifecycle import found_row, next_row
from crawlkit.rules.frontier.schedule import next_interval_s

CHANGED = {
    "changed": True,
    "unchanged": False,
    "not_modified": False,
}  # anything else is no evidence


def _unix(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def answer(given: dict, folder: Path) -> dict:
    cls = given.get("class", "generic")
    base = Schedule()
    own = getattr(base, f"{cls}_s")  # floor, maybe a start, ceiling
    floor = own[0]
    bounds = (given.get("min_s", floor), *own[1:-1], given.get("max_s", own[-1]))
    hosts = {f"{cls}_hosts": ("site.example",)} if cls in ("news", "dormant") else {}
    cfg = Schedule(
        **{f"{cls}_s": bounds},
        **{f: given.get(f, getattr(base, f)) for f in ("changed_factor", "unchanged_factor")},
        **hosts,
    )
    interval = given.get("interval_s", floor)
    for outcome in given.get("outcomes", []):
        interval = next_interval_s(interval, CHANGED.get(outcome), cls, cfg)
    out = {"interval_s": interval}
    if "now" in given:
        now = _unix(given["now"])
        row = found_row(
            "http://site.example/",
            b"k" * 16,
            "site.example",
            "site.example",
            0,
            source="seed",
            now=now - 1,
        ) | {
            "n_fetch": 1,
            "interval_s": given.get("interval_s", floor),
            "body_sha256": "d",
            "text_sha256": "d",
            "capture_id": "c",
            "last_modified": given.get("last_modified"),
        }
        for outcome in given.get("outcomes", ["unchanged"]):
            if outcome == "error":
                row = next_row(
                    row,
                    {"outcome": "failed", "reason": Reason.TIMEOUT, "status": None},
                    now,
                    Config(schedule=cfg),
                )
                continue
            row = next_row(
                row,
                {
                    "outcome": "not_modified" if outcome == "not_modified" else "fetched",
                    "status": 304 if outcome == "not_modified" else 200,
                    "body_sha256": "d" if outcome == "unchanged" else outcome + row["history"],
                    "text_sha256": None,
                    "capture_id": "c",
                    "last_modified": given.get("last_modified"),
                },
                now,
                Config(schedule=cfg),
            )
        out["next_fetch"] = row["next_fetch"]
        out |= {
            "next_fetch_after": _After(row["next_fetch"]),
            "next_fetch_before": _Before(row["next_fetch"]),
        }
    return out


class _After(float):
    def __eq__(self, text: object) -> bool:
        return float(self) > _unix(str(text))

    __hash__ = float.__hash__


class _Before(float):
    def __eq__(self, text: object) -> bool:
        return float(self) < _unix(str(text))

    __hash__ = float.__hash__
