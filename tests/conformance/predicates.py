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


class Requests(list[str]):
    """Addresses in order, which may also be compared with a number of them."""

    def __le__(self, other: Any) -> bool:
        return len(self) <= other if isinstance(other, int) else super().__le__(other)

    def __ge__(self, other: Any) -> bool:
        return len(self) >= other if isinstance(other, int) else super().__ge__(other)


class Mobile:
    """The mobile marks beside the addresses: equals a list of marks, a list of the marked
    addresses, or whether any is marked.
    """

    def __init__(self, urls: list[str], marks: list[bool]) -> None:
        self._forms = (
            marks,
            [url for url, mark in zip(urls, marks, strict=True) if mark],
            any(marks),
        )

    def __eq__(self, other: object) -> bool:
        return any(type(form) is type(other) and form == other for form in self._forms)

    def __repr__(self) -> str:
        return repr(self._forms[0])
