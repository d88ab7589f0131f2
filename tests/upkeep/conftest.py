"""Tests of the upkeep run on the local engine; those that take `on_each` on each, over a crawl that
the local one made.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines import ENGINES, run_on

on = run_on("local")


@pytest.fixture(params=ENGINES)
def on_each(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of Job for an engine: the test runs on each."""
    if request.param == "local":
        return {"engine": "local"}
    return {"spark": request.getfixturevalue("spark")}
