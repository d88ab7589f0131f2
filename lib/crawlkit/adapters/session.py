"""Cookies for the hosts that the operator named (REQUIREMENTS E6): kept in memory for the length of a task, nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from crawlkit.adapters.guard import Place
from crawlkit.records import Answer, FetchRequest
from crawlkit.rules.cookies import Cookie, cookie_header, receive
from crawlkit.rules.domains import registered_domain

SESSION = "session"  # note on an answer: its Set-Cookie lines must not be stored


class Cookies:
    """One jar a registered domain; other hosts neither send nor keep any."""

    def __init__(self, hosts: Sequence[str], wall: Callable[[], float] = time.time) -> None:
        self._hosts, self._wall = frozenset(h.lower() for h in hosts), wall
        self._jars: dict[str, tuple[Cookie, ...]] = {}

    def attach(self, request: FetchRequest, place: Place) -> FetchRequest:
        """The request with its Cookie header, if any."""
        if place.host not in self._hosts:
            return request
        jar = self._jars.get(registered_domain(place.host), ())
        value = cookie_header(jar, place.host, place.target, place.scheme == "https", self._wall())
        return replace(request, headers=[*request.headers, ("Cookie", value)]) if value else request

    def learn(self, answer: Answer, place: Place) -> None:
        """Keeps what the answer sets and marks it."""
        if place.host not in self._hosts:
            return
        answer.notes.append(SESSION)
        lines = [value for name, value in answer.headers if name.lower() == "set-cookie"]
        domain = registered_domain(place.host)
        self._jars[domain] = receive(self._jars.get(domain, ()), place.host, place.target, place.scheme == "https", lines, self._wall())
