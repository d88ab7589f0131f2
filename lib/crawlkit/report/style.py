"""The style of the report's pages."""

from __future__ import annotations

from importlib.resources import files


def read_css() -> str:
    """Style of the report page: one column on a phone, two on a desk."""
    return files("crawlkit").joinpath("data/report/report.css").read_text("utf-8")
