"""What is behind the long texts of Spark's errors."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

# an error of ours that a task raised, on a line of its own in the text of Spark's
_OURS = re.compile(r"^crawlkit(?:\.\w+)+\.(\w+): (.*)$", re.MULTILINE)


class TaskError(NamedTuple):
    """An error that a task raised. name: of its class."""

    name: str
    message: str


def find_task_error(text: str) -> TaskError | None:
    """The last error of crawlkit's own that Spark's text quotes; None: there is none."""
    found = _OURS.findall(text)
    return TaskError(*found[-1]) if found else None


def first_cause(text: str) -> str:
    """The innermost error that a long text of Spark's names, without stack lines and plans."""
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith(("at ", "+-", ":-", "..."))
    ]
    causes = [line for line in lines if "Error" in line or "Exception" in line]
    return (causes or lines[:1] or ["unknown"])[-1].removeprefix("Caused by: ")[:400]


def damaged_file(text: str) -> str | None:
    """The table file that an engine could not read, if that is what an error says."""
    if not any(
        mark in text
        for mark in (
            "FAILED_READ_FILE",
            "FileNotFoundException",
            "ChecksumException",
            "is not a Parquet file",
            "DELTA_TRUNCATED",
            "DELTA_STATE_RECOVER",
            "No magic bytes found",  # DuckDB's words
            "Cannot open file",
        )
    ):
        return None
    found = re.search(
        r"(?:file:)?((?:s3a:/)?/[^\s:,'\"]{1,1000}(?:\.parquet|/_delta_log)[^\s:,]{0,200})", text
    )
    if not found:
        return None
    place = unquote(found[1]).rstrip(".")
    return place if place.startswith("s3a:") else "/" + place.lstrip("/")
