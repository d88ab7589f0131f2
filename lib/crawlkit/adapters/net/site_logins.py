"""Sessions for the hosts that the operator has named: request fields and cookies.

Both live in memory for the length of a task, and go to the wire only: no record, row or log line
has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from crawlkit.adapters.net.address_guard import Place
from crawlkit.adapters.net.secret_source import secret
from crawlkit.config import Fetch, of_host
from crawlkit.model import Answer, FetchRequest
from crawlkit.rules.http.cookies import Cookie, cookie_header, receive
from crawlkit.rules.url.domains import registered_domain

SESSION = "session"  # note on an answer: its Set-Cookie lines must not be stored


class Session:
    """A cookie jar for each registered domain, and the configured request fields.

    For the hosts named in fetch.cookie_hosts and fetch.session_headers. Raises ConfigError if a
    secret cannot be read.
    """

    def __init__(self, fetch: Fetch, wall: Callable[[], float] = time.time) -> None:
        self._cookie_hosts, self._wall = frozenset(h.lower() for h in fetch.cookie_hosts), wall
        self._fields = {
            host.lower(): {name: secret(value) for name, value in fields.items()}
            for host, fields in fetch.session_headers.items()
        }
        self._jars: dict[str, tuple[Cookie, ...]] = {}

    def attach(self, request: FetchRequest, place: Place) -> FetchRequest:
        """The request as it goes to the wire; the same object if the host has no session."""
        fields = of_host(self._fields, place.host) if self._fields else None
        if fields:
            ours = {name.lower() for name in fields}
            request = replace(
                request,
                headers=[
                    *((n, v) for n, v in request.headers if n.lower() not in ours),
                    *fields.items(),
                ],
            )
        if place.host in self._cookie_hosts:
            jar = self._jars.get(registered_domain(place.host), ())
            value = cookie_header(
                jar, place.host, place.target, place.scheme == "https", self._wall()
            )
            if value:
                request = replace(request, headers=[*request.headers, ("Cookie", value)])
        return request

    def learn(self, answer: Answer, place: Place) -> None:
        """Keeps the cookies that the answer sets, and marks an answer of a session."""
        if place.host not in self._cookie_hosts:
            fields = of_host(self._fields, place.host) if self._fields else None
            if fields:
                answer.notes.append(SESSION)
            return
        answer.notes.append(SESSION)
        lines = [value for name, value in answer.headers if name.lower() == "set-cookie"]
        domain = registered_domain(place.host)
        self._jars[domain] = receive(
            self._jars.get(domain, ()),
            place.host,
            place.target,
            place.scheme == "https",
            lines,
            self._wall(),
        )
