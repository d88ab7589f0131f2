"""Files of the report: their place and their style."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.crawl.state import Crawl


def put_file(crawl: Crawl, name: str, text: str) -> None:
    """Write a file of the report, in a folder or in S3; it appears whole."""
    if "://" in crawl.report:
        return open_objects(crawl.report, crawl.cfg.s3).put(name, text.encode())
    folder = Path(crawl.report)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{name}.part"
    part.write_text(text, "utf-8")
    part.replace(folder / name)


def diff_pages(crawl: Crawl) -> list[tuple[str, str, str]]:
    """(round before, round after, file) of each page that compares two rounds, sorted."""
    if "://" in crawl.report:
        names = open_objects(crawl.report, crawl.cfg.s3).list("diff-")
    else:
        names = [p.name for p in Path(crawl.report).glob("diff-*.html")]
    known, found = set(crawl.round_ids()), []
    for name in names:
        pair = name.removeprefix("diff-").removesuffix(".html")
        cuts = [i for i, c in enumerate(pair) if c == "-"]  # names of rounds may have dashes
        found += [
            (pair[:i], pair[i + 1 :], name)
            for i in cuts
            if pair[:i] in known and pair[i + 1 :] in known
        ]
    return sorted(found)


def warc_link(crawl: Crawl) -> str | None:
    """The folder of WARC files as seen from the report's; None: not in the same file system."""
    if "://" in crawl.report or "://" in crawl.warc_place:
        return None
    return Path(os.path.relpath(crawl.warc_place, crawl.report)).as_posix() + "/"


def read_settings(crawl: Crawl, round_id: str) -> dict[str, Any]:
    """The settings that a round was opened with, section by section; {}: it does not tell."""
    try:
        told: dict[str, Any] = json.loads(crawl.objects.get(f"rounds/{round_id}/settings.json")[0])
    except (ObjectMissing, ValueError):
        return {}
    return told


def read_script() -> str:
    """The script that sorts tables."""
    return files("crawlkit").joinpath("data/report/sort.js").read_text("utf-8")


def read_css() -> str:
    """Style of the pages: one column on a phone, two on a desk; light or dark as the reader has."""
    return files("crawlkit").joinpath("data/report/report.css").read_text("utf-8")
