"""How many examples a law is tried on."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """So many in `make test`; in the quick run as many fewer as its profile has
    (tests/conftest.py).
    """
    return settings(max_examples=count * settings.default.max_examples // 100, deadline=None)
