"""The engines that tests run on: a test that takes the fixture `on` (options of Job) runs on each
of them; `on = run_on("local")` in its module lets it run on that one alone.
"""

from __future__ import annotations

from typing import Any

import pytest

SPARK = pytest.param("spark", marks=pytest.mark.spark)
ENGINES = ["local", SPARK]


def run_on(*names: str) -> Any:
    """The fixture `on` for some engines."""
    params = [SPARK if name == "spark" else name for name in names]

    @pytest.fixture(scope="session", params=params, name="on")
    def on(request: pytest.FixtureRequest) -> dict[str, Any]:
        """Options of Job for an engine; commands that tests start use the same one."""
        from tests.rounds import crawlproc

        crawlproc.ENGINE = request.param
        if request.param == "local":
            return {"engine": "local"}
        return {"spark": request.getfixturevalue("spark")}

    return on
