"""Probe adapter: rules.cdxj, and rules.redirects for the redirect column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.exports.files import sorted_lines
from crawlkit.rules.http.redirects import redirect
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.warc.cdxj_lines import RevisitCheck, surt_key


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    if "url" in given:
        return {"surt": surt_key(given["url"])}
    if "keys" in given:
        return {"sorted": list(sorted_lines(given["keys"]))}
    if "revisit" in given:
        check = RevisitCheck(
            [(given["revisit"]["refers_to_uri"], given["revisit"]["refers_to_date"])]
        )
        for row in given["index"]:
            check.add(row["url"], row["timestamp"])
        lost = bool(check.list_unresolved())
        return {"resolved": not lost, "reported": lost}
    capture = given["capture"]
    location = next(
        (value for name, value in capture.get("headers") or [] if name.lower() == "location"), None
    )
    return {"redirect": redirect(canonicalize(capture["url"]), capture["status"], location).target}
