"""The Chromium of the tests, or a skip that says what is missing."""

import importlib.util

import pytest
from crawlkit.adapters.browser.rendering import find_chromium
from crawlkit.config import Render


def chromium() -> str:
    """Its path; skips where there is none."""
    path = find_chromium(Render())
    if path is None or importlib.util.find_spec("playwright") is None:
        pytest.skip("NO CHROMIUM: rendering is not tested here; `make setup-render` gets one")
    return str(path)
