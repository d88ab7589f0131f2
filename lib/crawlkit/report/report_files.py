"""Files of the report: their place and their style."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

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


def read_css() -> str:
    """Style of the report page: one column on a phone, two on a desk."""
    return files("crawlkit").joinpath("data/report/report.css").read_text("utf-8")
