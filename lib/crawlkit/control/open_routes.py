"""Routes that others speak to, without our token: webmasters' pings, and hubs of WebSub.

A ping is believed by a key that its host holds, a hub by a signature (docs/operations.md).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import ValidationError

from crawlkit.control import indexnow, websub
from crawlkit.control.backend import Backend, FromApp, FromSender, Sender
from crawlkit.control.forms import ERRORS, PingBody
from crawlkit.rules.frontier.command_rules import BadCommand
from crawlkit.rules.url.canonical import canonicalize, host_of

router = APIRouter(tags=["pings"])
hubs = APIRouter(tags=["hubs"])  # they may add parameters of their own
Text = Annotated[str, Query(max_length=65_536)]
_OVER: dict[int | str, dict[str, Any]] = {
    **ERRORS,
    404: {"description": "nothing was asked for here"},
    410: {"description": "the subscription is over"},
}
_PINGED: dict[int | str, dict[str, Any]] = {
    200: {"description": "taken as hints"},
    202: {"description": "taken as hints once the host's key file is read"},
    403: {"description": "the host does not hold the key"},
    422: {"description": "URLs that the key does not speak for, or no key"},
    429: {"description": "too many wait"},
}


async def ping_of(request: Request) -> PingBody:
    """The body of a ping. Raises BadCommand: it is not IndexNow's form (400)."""
    try:
        return PingBody.model_validate_json(await request.body())
    except ValidationError as e:
        first = e.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        raise BadCommand(f"{where}: {first['msg']}") from None


_FORM = {"requestBody": {"content": {"application/json": {"schema": PingBody.model_json_schema()}}}}


@router.post("/indexnow", responses=_PINGED, openapi_extra=_FORM)
def ping(
    request: Request,
    response: Response,
    app: FromApp,
    sender: FromSender,
    body: Annotated[PingBody, Depends(ping_of)],
) -> dict[str, Any]:
    """A webmaster's ping: changed URLs of that host become due, new ones candidates."""
    return _answer(request, response, app, sender, body)


@router.get("/indexnow", responses=_PINGED)
def ping_url(  # noqa: PLR0913 - the parameters of IndexNow
    request: Request,
    response: Response,
    app: FromApp,
    sender: FromSender,
    url: Text,
    key: Text,
    key_location: Annotated[str | None, Query(alias="keyLocation", max_length=65_536)] = None,
) -> dict[str, Any]:
    """The same for one URL."""
    host = host_of(canonicalize(url))
    body = PingBody(host=host, key=key, keyLocation=key_location, urlList=[url])
    return _answer(request, response, app, sender, body)


def _answer(
    request: Request, response: Response, app: Backend, sender: Sender, body: PingBody
) -> dict[str, Any]:
    told = indexnow.take(app, sender, body, request.state.is_trusted)
    response.status_code = told.status
    if told.status == 429:
        response.headers["Retry-After"] = str(indexnow.RETRY_AFTER_S)
    return told.body


@hubs.get("/websub/{subscription_id}", responses=_OVER)
def verify(request: Request, app: FromApp, subscription_id: str) -> Response:
    """A hub asks whether we have asked it (WebSub 5.3): its challenge, or 404."""
    told = websub.answer_hub(app.crawl(), subscription_id, request.query_params)
    headers = {"X-Content-Type-Options": "nosniff"}
    return Response(told or "", 404 if told is None else 200, headers, "text/plain")


@hubs.post("/websub/{subscription_id}", status_code=202, responses=_OVER)
async def push(request: Request, app: FromApp, subscription_id: str) -> Response:
    """A hub sends what is new of a topic (WebSub 7). 202 also for what is not signed: ignored."""
    state = await run_in_threadpool(lambda: websub.is_expecting(app.crawl(), subscription_id))
    if not state:
        return Response(status_code=410 if state is None else 404)
    given = request.headers.items(), await request.body()
    await run_in_threadpool(
        lambda: websub.take_push(app.crawl(), app.cfg, app.token, subscription_id, *given)
    )
    return Response(status_code=202)
