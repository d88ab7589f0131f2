"""The control API (docs/api.md): the command line's verbs and views over HTTP, behind one token."""

from __future__ import annotations

import hmac
import json
import math
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPBearer
from starlette.requests import ClientDisconnect

from crawlkit.adapters.lake.table_reader import TableError
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.objects import StoreUnavailable
from crawlkit.config import Config
from crawlkit.control import alias_routes, open_routes, see_routes, steer_routes
from crawlkit.control.backend import Backend
from crawlkit.control.forms import ERRORS
from crawlkit.crawl.state import CrawlError, Place
from crawlkit.outcomes import Refused
from crawlkit.rules.frontier.command_rules import BadCommand
from crawlkit.version import __version__

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_OPEN_BODY_BYTES = 4 * 1024 * 1024  # of who has no token
# they show nothing of the crawl
OPEN_PATHS = frozenset({"/", "/healthz", "/v1/healthz", "/openapi.json"})
# open too if the API has a public address: who speaks there proves itself otherwise
_PUBLIC = re.compile(r"/indexnow|/websub/[^/]+")
FIGURES_AGE_S = 10.0


class Ascii(JSONResponse):
    """JSON that any text survives (also half a surrogate pair), without NaN."""

    def render(self, content: Any) -> bytes:
        """The response's body."""
        text = json.dumps(_finite(content), ensure_ascii=True, allow_nan=False, default=str)
        return text.encode("ascii")


def _finite(value: Any) -> Any:
    """The value with null for numbers that JSON has not (RFC 8259, 6)."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TokenGuard:
    """ASGI: reads nothing from a client, and shows nothing, before its token is right, but of pings
    and hubs if `is_public`.

    No body is longer than MAX_BODY_BYTES, of them MAX_OPEN_BODY_BYTES. Routes are told whether the
    token is right: `request.state.is_trusted`.
    """

    def __init__(self, app: Any, token: str, is_public: bool) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._is_public = is_public

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            given = headers.get(b"authorization", b"")
            is_trusted = hmac.compare_digest(given, self._expected)
            refusal = self._refusal(scope["path"], headers, is_trusted)
            state = {**scope.get("state", {}), "is_trusted": is_trusted}
            await (refusal or self._app)(scope | {"state": state}, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)

    def _refusal(self, path: str, headers: dict[bytes, bytes], is_trusted: bool) -> Ascii | None:
        """The response to a request that is not let through."""
        is_open = path in OPEN_PATHS or (self._is_public and _PUBLIC.fullmatch(path))
        if not is_open and not is_trusted:
            detail = "a bearer token is needed: Authorization: Bearer TOKEN"
            return _refuse(401, detail, {"WWW-Authenticate": "Bearer"})
        if b"transfer-encoding" in headers:
            return _refuse(411, "a Content-Length is needed")
        most = MAX_BODY_BYTES if is_trusted else MAX_OPEN_BODY_BYTES
        if int(headers.get(b"content-length", b"0")) > most:
            return _refuse(413, f"the body is longer than {most} bytes")
        return None


def _refuse(status: int, detail: str, headers: dict[str, str] | None = None) -> Ascii:
    return Ascii({"detail": detail}, status, {**(headers or {}), "Connection": "close"})


def only_known_queries(request: Request) -> None:
    """Refuse unknown query parameters: a misspelt `dry_run` must not do what it was to try.

    Raises BadCommand.
    """
    known = _query_names(request.scope["route"].dependant)
    if unknown := sorted(set(request.query_params) - known):
        raise BadCommand(
            f"query parameter {unknown[0]!r:.60} is unknown here; known:"
            f" {', '.join(sorted(known)) or 'none'}"
        )


def _query_names(dependant: Any) -> set[str]:
    """The query parameters of a route and of what it depends on."""
    names = {p.alias for p in dependant.query_params}
    return names.union(*map(_query_names, dependant.dependencies))


def make_app(data: Place, cfg: Config, token: str) -> Any:
    """The ASGI application.

    Every request opens the crawl: nothing is kept that could be out of date but the table figures
    (FIGURES_AGE_S).
    """
    app = FastAPI(
        title="crawlkit control API",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        default_response_class=Ascii,
    )
    app.state.backend = Backend(data, cfg, token, FIGURES_AGE_S)
    _handle_errors(app)
    _add_open_routes(app)
    app.include_router(open_routes.hubs)
    for routes in (steer_routes, see_routes, alias_routes, open_routes):
        app.include_router(
            routes.router,
            dependencies=[Depends(HTTPBearer(auto_error=False)), Depends(only_known_queries)],
            responses=ERRORS,
        )
    return TokenGuard(app, token, bool(cfg.control.public_url))


def _add_open_routes(app: FastAPI) -> None:
    """The routes that need no token: OPEN_PATHS."""

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return files("crawlkit").joinpath("data/status.html").read_text("utf-8")

    @app.get("/healthz", include_in_schema=False)
    @app.get("/v1/healthz", tags=["see"])
    def healthz() -> dict[str, Any]:
        """Whether the API answers; needs no token and shows nothing of the crawl."""
        return {"ok": True}


_STATUS_OF: tuple[tuple[type[Exception], int], ...] = (
    (BadCommand, 400),
    (Refused, 400),
    (ClientDisconnect, 400),  # nobody is there to read it; without it there is a trace in the log
    (CrawlError, 409),
    (LockHeld, 503),
    (TableError, 503),
    (StoreUnavailable, 503),
)


def _handle_errors(app: FastAPI) -> None:
    """Give every error that a request can cause its status, with the message as `detail`."""

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, e: RequestValidationError) -> Ascii:
        errors = [{"loc": list(d["loc"]), "msg": d["msg"], "type": d["type"]} for d in e.errors()]
        return Ascii({"detail": errors}, 422)

    for kind, status in _STATUS_OF:
        app.exception_handler(kind)(_responder(status))


def _responder(status: int) -> Callable[[Request, Exception], Ascii]:
    return lambda request, e: Ascii({"detail": str(e)}, status)
