"""The control API (docs/api.md): the command line's verbs and views over HTTP, behind one bearer
token.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Callable
from importlib.resources import files
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer

from crawlkit import __version__
from crawlkit.adapters.lake.table_reader import TableError
from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.objects import StoreUnavailable
from crawlkit.config import Config
from crawlkit.control import responses as views
from crawlkit.control.commands import run_command
from crawlkit.control.forms import (
    ERRORS,
    BoostBody,
    CommandId,
    ComplaintBody,
    DryRun,
    HostBody,
    HostName,
    Limit,
    Offset,
    PingBody,
    PolicyBody,
    PublishedPolicyBody,
    RoundName,
    UrlsBody,
)
from crawlkit.crawl.state import Crawl, CrawlError, Place
from crawlkit.observe.explain import explain
from crawlkit.outcomes import Refused
from crawlkit.report.metrics import current_text
from crawlkit.rules.frontier.command_rules import BadCommand, host_name
from crawlkit.rules.url.canonical import canonicalize, host_of
from crawlkit.rules.url.domains import registered_domain

MAX_BODY_BYTES = 16 * 1024 * 1024
OPEN_PATHS = frozenset(
    {"/", "/healthz", "/v1/healthz", "/openapi.json"}
)  # they tell nothing of the crawl
FIGURES_AGE_S = 10.0


class Ascii(JSONResponse):
    """JSON that any text survives (also half a surrogate pair), without NaN."""

    def render(self, content: Any) -> bytes:
        return json.dumps(_finite(content), ensure_ascii=True, allow_nan=False, default=str).encode(
            "ascii"
        )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Behind:
    """ASGI: nothing is read from a client, and nothing told, before its token is right; no body is
    longer than MAX_BODY_BYTES.
    """

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._expected = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal: tuple[int, str, dict[str, str]] | None = None
        if scope["path"] not in OPEN_PATHS and not hmac.compare_digest(
            headers.get(b"authorization", b""), self._expected
        ):
            refusal = (
                401,
                "a bearer token is needed: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )
        elif b"transfer-encoding" in headers:
            refusal = 411, "a Content-Length is needed", {}
        elif int(headers.get(b"content-length", b"0")) > MAX_BODY_BYTES:
            refusal = 413, f"the body is longer than {MAX_BODY_BYTES} bytes", {}
        if refusal is not None:
            await Ascii({"detail": refusal[1]}, refusal[0], {**refusal[2], "Connection": "close"})(
                scope, receive, send
            )
            return
        await self._app(scope, receive, send)


def only_known_queries(request: Request) -> None:
    """A misspelt `dry_run` must not do what it was to try. Raises BadCommand."""
    known = {p.alias for p in request.scope["route"].dependant.query_params}
    if unknown := sorted(set(request.query_params) - known):
        raise BadCommand(
            f"query parameter {unknown[0]!r:.60} is unknown here; known:"
            f" {', '.join(sorted(known)) or 'none'}"
        )


def page_of(items: list[dict[str, Any]], offset: int, limit: int) -> dict[str, Any]:
    """One page of a list; `items` holds one more than `limit` if there are more."""
    return {"items": items[:limit], "next_offset": offset + limit if len(items) > limit else None}


def make_app(data: Place, cfg: Config, token: str) -> Any:
    """The ASGI application.

    Every request opens the crawl anew: it keeps nothing that could be out of date but the table
    figures (10 s).
    """
    app = FastAPI(
        title="crawlkit control API",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        default_response_class=Ascii,
    )
    figures = views.Cached(lambda: views.table_figures(data, cfg), FIGURES_AGE_S)
    _handle_errors(app)

    def order(
        request: Request, verb: str, given: dict[str, Any], command_id: str | None, dry_run: bool
    ) -> dict[str, Any]:
        return run_command(
            Crawl(data, cfg),
            verb,
            given,
            actor=f"api:{request.client.host if request.client else 'unknown'}",
            command_id=command_id,
            dry_run=dry_run,
        )

    def status() -> dict[str, Any]:
        return views.status(data, cfg, figures())

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> str:
        return files("crawlkit").joinpath("data/status.html").read_text("utf-8")

    @app.get("/healthz", include_in_schema=False)
    @app.get("/v1/healthz", tags=["see"])
    def healthz() -> dict[str, Any]:
        """Whether the API answers; needs no token and tells nothing of the crawl."""
        return {"ok": True}

    for make in (_steer_routes, _see_routes, _published_routes):
        app.include_router(
            make(order, status, lambda: Crawl(data, cfg)),
            dependencies=[Depends(HTTPBearer(auto_error=False)), Depends(only_known_queries)],
            responses=ERRORS,
        )
    return Behind(app, token)


def _handle_errors(app: FastAPI) -> None:
    def answer(status: int) -> Callable[[Request, Exception], Ascii]:
        return lambda request, e: Ascii({"detail": str(e)}, status)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, e: RequestValidationError) -> Ascii:
        return Ascii(
            {
                "detail": [
                    {"loc": list(d["loc"]), "msg": d["msg"], "type": d["type"]} for d in e.errors()
                ]
            },
            422,
        )

    for kind, status in (
        (BadCommand, 400),
        (Refused, 400),
        (CrawlError, 409),
        (LockHeld, 503),
        (TableError, 503),
        (StoreUnavailable, 503),
    ):
        app.exception_handler(kind)(answer(status))


Order = Callable[[Request, str, dict[str, Any], str | None, bool], dict[str, Any]]


def _named(body: HostBody) -> dict[str, Any]:
    """host and domain of a body; a `domain` that is one host's name is that host."""
    given = {k: v for k, v in body.model_dump().items() if v is not None}
    if (
        "domain" in given
        and "host" not in given
        and registered_domain(name := host_name(given["domain"], "domain")) != name
    ):
        given["host"] = given.pop("domain")
    return given


def _steer_routes(
    order: Order, status: Callable[[], dict[str, Any]], crawl: Callable[[], Crawl]
) -> APIRouter:
    r = APIRouter(prefix="/v1", tags=["steer"])

    @r.post("/seeds")
    def seeds(
        request: Request, body: UrlsBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """Add URLs to the frontier with the next round."""
        return order(request, "seeds", body.model_dump(), command_id, dry_run)

    @r.post("/hints")
    def hints(
        request: Request, body: UrlsBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """URLs that may have changed: known ones become due, new ones candidates."""
        return order(request, "hint", body.model_dump(), command_id, dry_run)

    @r.post("/recrawl")
    def recrawl(
        request: Request, body: UrlsBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """Fetch URLs again in the next round, whatever their schedule says."""
        return order(request, "recrawl", body.model_dump(), command_id, dry_run)

    @r.post("/boost")
    def boost(
        request: Request, body: BoostBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """Add points to the score of URLs."""
        return order(request, "boost", body.model_dump(), command_id, dry_run)

    @r.post("/blacklist")
    def blacklist(
        request: Request, body: HostBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """Send nothing more to a host or domain; running tasks stop within 10 s."""
        return order(request, "block", _named(body), command_id, dry_run)

    @r.post("/unblock")
    def unblock(
        request: Request, body: HostBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """Allow a blocked host or domain again."""
        return order(request, "unblock", _named(body), command_id, dry_run)

    @r.post("/complaints")
    def complaints(
        request: Request, body: ComplaintBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """Record a complaint: the host is blocked or slowed before its next request, and an alert
        fires.
        """
        return order(request, "complain", _named(body), command_id, dry_run)

    @r.post("/rounds/{round_id}/{verb}")
    def rounds(
        request: Request,
        round_id: RoundName,
        verb: Literal["pause", "resume", "abandon"],
        command_id: CommandId = None,
        dry_run: DryRun = False,
    ) -> dict[str, Any]:
        """Hold a round, let it go on, or end it (what it has not committed is due as before)."""
        return order(request, verb, {"round_id": round_id}, command_id, dry_run)

    @r.put("/hosts/{host}/policy")
    def policy(
        request: Request,
        host: HostName,
        body: PolicyBody,
        command_id: CommandId = None,
        dry_run: DryRun = False,
    ) -> dict[str, Any]:
        """Set a host's pace; what is left out is as configured."""
        return order(request, "host_set", {"host": host, **body.model_dump()}, command_id, dry_run)

    return r


def _see_routes(
    order: Order, status: Callable[[], dict[str, Any]], crawl: Callable[[], Crawl]
) -> APIRouter:
    r = APIRouter(prefix="/v1", tags=["see"])

    @r.get("/status")
    def status_() -> dict[str, Any]:
        """Open rounds with their progress, URLs by state, rate, errors."""
        return status()

    @r.get("/metrics", response_class=PlainTextResponse)
    def metrics() -> str:
        """The newest round's metrics and the alerts as Prometheus text."""
        return current_text(crawl())

    @r.get("/alerts")
    def alerts() -> dict[str, Any]:
        """Every alert rule and its state."""
        return views.alerts(crawl())

    @r.get("/explain")
    def explain_(url: Annotated[str, Query(max_length=65_536)]) -> dict[str, Any]:
        """Everything known of a URL, and why it was not fetched."""
        return explain(crawl(), url)

    @r.get("/rounds")
    def rounds(offset: Offset = 0, limit: Limit = 50) -> dict[str, Any]:
        """Rounds, newest first."""
        return page_of(views.rounds(crawl(), offset, limit + 1), offset, limit)

    @r.get("/errors")
    def errors(
        offset: Offset = 0,
        limit: Limit = 100,
        host: Annotated[str | None, Query(max_length=300)] = None,
    ) -> dict[str, Any]:
        """Failed requests, newest round first."""
        return page_of(
            views.errors(crawl(), offset, limit + 1, None if host is None else host_name(host)),
            offset,
            limit,
        )

    @r.get("/cdx")
    def cdx(
        url: Annotated[str, Query(max_length=65_536)], offset: Offset = 0, limit: Limit = 100
    ) -> dict[str, Any]:
        """Stored records of a URL, oldest first."""
        return page_of(views.cdx(crawl(), url, offset, limit + 1), offset, limit)

    @r.get("/commands")
    def commands(offset: Offset = 0, limit: Limit = 100) -> dict[str, Any]:
        """What was ordered, newest first."""
        return page_of(views.commands(crawl(), offset, limit + 1), offset, limit)

    @r.get("/hosts/{host}/policy")
    def policy(host: HostName) -> dict[str, Any]:
        """What is ordered for a host, and the delay in force."""
        return views.host_policy(crawl(), host_name(host))

    return r


def _published_routes(
    order: Order, status: Callable[[], dict[str, Any]], crawl: Callable[[], Crawl]
) -> APIRouter:
    """The same under names that other crawlers' operators know."""
    r = APIRouter(tags=["aliases"])

    @r.post("/api/v1/crawler/seeds")
    def seeds(
        request: Request, body: UrlsBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        told = order(request, "seeds", body.model_dump(), command_id, dry_run)
        return {"added": told["added"], "duplicates": told["duplicates"]}

    @r.get("/api/v1/crawler/status")
    def crawler_status() -> dict[str, Any]:
        s = status()
        return {
            "queueDepth": s["queue_depth"],
            "crawlRate": s["pages_per_s"],
            "domainsActive": s["hosts_active"],
            "errorsLastHour": s["errors_last_hour"],
            "pagesThisMonth": s["pages_this_month"],
        }

    @r.post("/api/v1/crawler/blacklist")
    def blacklist(
        request: Request, body: HostBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        return order(request, "block", _named(body), command_id, dry_run)

    @r.post("/api/v1/crawler/recrawl")
    def recrawl(
        request: Request, body: UrlsBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        return order(request, "recrawl", body.model_dump(), command_id, dry_run)

    @r.post("/indexnow", status_code=202)
    def ping(
        request: Request, body: PingBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        """A webmaster's ping: URLs of that host that have changed are due, new ones candidates.

        400 if one is of another host.
        """
        host = host_name(body.host)
        if stray := [u for u in body.urlList if host_of(canonicalize(u)) != host]:
            raise BadCommand(f"urlList: {stray[0]!r:.200} is not of {host}")
        return {
            "queued": order(request, "hint", {"urls": body.urlList}, command_id, dry_run)["queued"]
        }

    @r.post("/seeds")
    def seeds_(
        request: Request, body: UrlsBody, command_id: CommandId = None, dry_run: DryRun = False
    ) -> dict[str, Any]:
        return {"queued": order(request, "seeds", body.model_dump(), command_id, dry_run)["queued"]}

    @r.get("/status")
    def status_() -> dict[str, Any]:
        s = status()
        return {
            "pages_per_sec": s["pages_per_s"],
            "queue_depth": s["queue_depth"],
            "error_rate_percent": round(100 * s["error_share"], 2),
        }

    @r.post("/hosts/{host}/policy")
    def policy(
        request: Request,
        host: HostName,
        body: PublishedPolicyBody,
        command_id: CommandId = None,
        dry_run: DryRun = False,
    ) -> dict[str, Any]:
        delay_s = None if body.crawl_delay_ms is None else body.crawl_delay_ms / 1000
        order(
            request,
            "host_set",
            {"host": host, "delay_s": delay_s, "parallel": body.max_concurrent},
            command_id,
            dry_run,
        )
        return {"applied": not dry_run}

    return r
