"""Values for expectations that list examples: `disallowed`, `not_requested` ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Every:
    """Equals any list of which every item passes the test."""

    def __init__(self, test: Callable[[Any], bool], name: str) -> None:
        self._test = test
        self._name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and all(self._test(item) for item in other)

    def __repr__(self) -> str:
        return f"<every item {self._name}>"
