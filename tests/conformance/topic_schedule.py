"""schedule: outcomes in a row through the interval rule and the life cycle."""

from __future__ import annotations

import datetime
from pathlib import Path

from crawlkit.config import Config, Schedule
from crawlkit.rules.lifecycle import found_row, next_row
from crawlkit.rules.schedule import next_interval_s

CHANGED = {"changed": True, "unchanged": False, "unknown": None, "error": None}


def _unix(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def answer(given: dict, folder: Path) -> dict:
    cls = given.get("class", "generic")
    base = Schedule()
    floor, ceiling = {"news": base.news_s, "dormant": base.dormant_s}.get(cls, base.generic_s)
    bounds = (given.get("min_s", floor), given.get("max_s", ceiling))
    cfg = Schedule(**{f"{cls}_s": bounds, "unchanged_factor": given.get("unchanged_factor", base.unchanged_factor), "changed_factor": given.get("changed_factor", base.changed_factor), f"{cls}_hosts": ("site.example",)} if cls != "generic"
                   else {"generic_s": bounds, "unchanged_factor": given.get("unchanged_factor", base.unchanged_factor), "changed_factor": given.get("changed_factor", base.changed_factor)})
    interval = given.get("interval_s", floor)
    for outcome in given.get("outcomes", []):
        interval = next_interval_s(interval, CHANGED[outcome], cls, cfg)
    out = {"interval_s": interval}
    if "now" in given:
        now = _unix(given["now"])
        row = found_row("http://site.example/", b"k" * 16, "site.example", "site.example", 0, source="seed", now=now - 1) | {
            "n_fetch": 1, "interval_s": given.get("interval_s", floor), "body_sha256": "d", "text_sha256": "d", "capture_id": "c", "last_modified": given.get("last_modified")}
        for outcome in given.get("outcomes", ["unchanged"]):
            row = next_row(row, {"outcome": "fetched", "status": 200, "body_sha256": "d" if outcome == "unchanged" else outcome + row["history"], "text_sha256": None, "capture_id": "c", "last_modified": given.get("last_modified")}, now, Config(schedule=cfg))
        out["next_fetch"] = row["next_fetch"]
        out |= {"next_fetch_after": _After(row["next_fetch"]), "next_fetch_before": _Before(row["next_fetch"])}
    return out


class _After(float):
    def __eq__(self, text: object) -> bool:
        return float(self) > _unix(str(text))

    __hash__ = float.__hash__


class _Before(float):
    def __eq__(self, text: object) -> bool:
        return float(self) < _unix(str(text))

    __hash__ = float.__hash__
