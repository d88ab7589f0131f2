"""The engines that tests run on: a test that takes the fixture `on` runs on each of them, unless
its module or it has one of these marks.
"""

from __future__ import annotations

import pytest

SPARK = pytest.param("spark", marks=pytest.mark.spark)
ENGINES = ["local", SPARK]
ON_LOCAL = pytest.mark.parametrize("on", ["local"], indirect=True, scope="session")
ON_SPARK = pytest.mark.parametrize("on", [SPARK], indirect=True, scope="session")
