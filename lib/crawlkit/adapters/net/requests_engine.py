"""The reference engine: `requests` behind the seam of fetcher.Engine, one thread a request.

Role: an independent second opinion for tests and for doubtful hosts. It is not fast, and it reports
less: header bytes are rebuilt from parsed fields, and its own parser decides what is malformed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

from crawlkit.adapters.net.address_guard import Admitted, Guard, Place, Resolves
from crawlkit.adapters.net.connection import Budget
from crawlkit.adapters.net.dns import make_resolver
from crawlkit.adapters.net.engine import request_bytes, type_refused, without_credentials
from crawlkit.adapters.net.site_logins import Session
from crawlkit.adapters.net.tls import connect_reason, default_context, unverified_context
from crawlkit.config import Fetch
from crawlkit.model import Answer, FetchRequest
from crawlkit.outcomes import Reason, Refused

_PIECE = 64 * 1024


class _CheckedAdapter(HTTPAdapter):
    """Connects to the address that was checked; name and port of the URL stay in Host and SNI."""

    def __init__(self, place: Place, admitted: Admitted, tls: ssl.SSLContext) -> None:
        self._place = place
        self._admitted = admitted
        self._tls = tls
        super().__init__(max_retries=0)

    def get_connection_with_tls_context(
        self, request: Any, verify: Any, proxies: Any = None, cert: Any = None
    ) -> HTTPConnectionPool:
        """A pool for the checked address (requests.adapters.HTTPAdapter)."""
        where: dict[str, Any] = {
            "host": self._admitted.addresses[0],
            "port": self._admitted.port,
            "maxsize": 1,
            "retries": False,
        }
        if self._place.scheme == "http":
            return HTTPConnectionPool(**where)
        return HTTPSConnectionPool(
            **where,
            ssl_context=self._tls,
            server_hostname=self._place.host,
            assert_hostname=None if self._tls.check_hostname else False,
        )

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """The context decides."""


class RequestsEngine:
    """Same interface and same limits as engine.Engine; no connection is kept."""

    def __init__(
        self, fetch: Fetch, resolver: Resolves | None = None, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._fetch, self._tls = fetch, tls
        self.resolver = resolver or make_resolver(fetch.resolvers)
        self.budget = Budget()  # its threads read on, whatever is held
        self._guard = Guard(fetch, self.resolver)
        self._session = Session(fetch)
        self._threads = threading.BoundedSemaphore(fetch.in_flight)

    async def fetch(
        self,
        request: FetchRequest,
        *,
        deadline_s: float | None = None,
        content_types: Sequence[str] | None = None,
        max_body_bytes: int | None = None,
    ) -> Answer:
        """As engine.Engine.fetch."""
        answer = Answer(
            without_credentials(request.url), wall_start=time.time(), mono_start=time.monotonic()
        )
        try:
            place = self._guard.parse(request.url)
            answer.url, answer.request_bytes = place.url, request_bytes(request, place.target)
            request = self._session.attach(request, place)
            admitted = await self._guard.admit(place)
            allowed = self._fetch.content_types if content_types is None else content_types
            limits = (
                deadline_s or self._fetch.timeout_s,
                max_body_bytes or self._fetch.max_body_bytes,
            )
            await asyncio.to_thread(self._send, request, place, admitted, answer, allowed, *limits)
            self._session.learn(answer, place)
        except Refused as refusal:
            answer.status = None
            answer.error = refusal.reason
            answer.error_detail = refusal.detail
        answer.wall_end, answer.mono_end = time.time(), time.monotonic()
        return answer

    async def close(self) -> None:
        """Nothing is kept open."""

    def _send(
        self,
        request: FetchRequest,
        place: Place,
        admitted: Admitted,
        answer: Answer,
        allowed: Sequence[str],
        timeout_s: float,
        max_body: int,
    ) -> None:
        unverified = place.host in self._fetch.unverified_tls_hosts
        tls = unverified_context() if unverified else self._tls or default_context()
        answer.ip = admitted.addresses[0]
        ends = time.monotonic() + timeout_s
        with requests.Session() as session, self._threads:
            session.trust_env = False
            session.mount(f"{place.scheme}://", _CheckedAdapter(place, admitted, tls))
            session.headers.clear()
            connect_s = min(self._fetch.connect_timeout_s, timeout_s)
            with _open(session, request, place, tls, (connect_s, timeout_s)) as response:
                answer.notes += ["tls_unverified"] * (unverified and place.scheme == "https")
                answer.notes += ["dns_stale"] * admitted.stale
                _take_head(answer, response)
                kind = response.raw.headers.get("content-type")
                if response.status_code // 100 == 2 and type_refused(kind, allowed):
                    raise Refused(Reason.CONTENT_TYPE, (kind or "")[:200])
                answer.body, answer.truncated = _read(response.raw, max_body, ends)


def _open(
    session: requests.Session,
    request: FetchRequest,
    place: Place,
    tls: ssl.SSLContext,
    timeout_s: tuple[float, float],
) -> requests.Response:
    """Send a request; its response, whose body is not read yet. Raises Refused."""
    headers = {n: v for n, v in request.headers if n.lower() != "connection"}
    plain = requests.Request(request.method, place.url, headers=headers, data=request.body or None)
    prepared = session.prepare_request(plain)
    try:
        return session.send(
            prepared,
            stream=True,
            allow_redirects=False,
            verify=tls.check_hostname,
            timeout=timeout_s,
        )
    except (requests.RequestException, HTTPError, HTTPException, OSError, ValueError) as err:
        raise _reason(err) from None


def _take_head(answer: Answer, response: requests.Response) -> None:
    """Take over status line and header of a response."""
    raw: HTTPResponse = response.raw
    answer.status = response.status_code
    answer.reason_phrase = response.reason or ""
    answer.http_version = {10: "1.0", 11: "1.1"}.get(raw.version, "")
    answer.headers = list(raw.headers.items())
    lines = [
        f"HTTP/{answer.http_version} {answer.status} {answer.reason_phrase}",
        *(f"{n}: {v}" for n, v in answer.headers),
    ]
    answer.header_bytes = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
    answer.transfer_decoded = "chunked" in raw.headers.get("transfer-encoding", "").lower()


def _read(raw: HTTPResponse, max_body: int, ends: float) -> tuple[bytes, str | None]:
    """Body without transfer coding, content coding kept, and how it was cut."""
    body = bytearray()
    try:
        for piece in raw.stream(_PIECE, decode_content=False):
            body += piece
            if len(body) > max_body:
                return bytes(body[:max_body]), "length"
            if time.monotonic() > ends:
                return bytes(body), "time"
    except ReadTimeoutError:
        return bytes(body), "time"
    except (HTTPError, HTTPException, OSError, ValueError) as err:
        partial = getattr(err, "partial", b"")
        return (
            bytes(body + partial if isinstance(partial, bytes) else body)[:max_body],
            "disconnect",
        )
    return bytes(body), None


def _reason(err: Exception) -> Refused:
    """The reason behind the wrappers of requests and urllib3."""
    seen: list[BaseException] = []
    todo: list[object] = [err]
    while todo and len(seen) < 20:
        this = todo.pop()
        if isinstance(this, BaseException) and this not in seen:
            seen.append(this)
            todo += [*this.args, this.__cause__, this.__context__, getattr(this, "reason", None)]
    for kind in (ssl.SSLError, ConnectionRefusedError):
        for this in seen:
            if isinstance(this, kind):
                return connect_reason(this)
    if any(isinstance(e, (ConnectTimeoutError,)) for e in seen) and not any(
        isinstance(e, NewConnectionError) for e in seen
    ):
        return Refused(Reason.CONNECT_TIMEOUT)
    if any(isinstance(e, (ReadTimeoutError, socket.timeout)) for e in seen):
        return Refused(Reason.TIMEOUT)
    if any(isinstance(e, NewConnectionError) for e in seen):
        return Refused(Reason.CONNECT_FAIL, type(err).__name__)
    text = " ".join(type(e).__name__ + str(e)[:60] for e in seen)
    if "RemoteDisconnected" in text or any(
        isinstance(e, ConnectionError) and not isinstance(e, requests.RequestException)
        for e in seen
    ):
        return Refused(Reason.DISCONNECTED)
    return Refused(Reason.HTTP_MALFORMED, text[:200])
