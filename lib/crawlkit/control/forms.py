"""The forms of the control API: bodies, query parameters, headers, and error responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Header, Path as InPath, Query
from pydantic import BaseModel, ConfigDict, Field

from crawlkit.config.content_sections import Category
from crawlkit.rules.frontier.command_rules import MAX_URLS


class Body(BaseModel):
    """A JSON body without unknown members."""

    model_config = ConfigDict(extra="forbid", strict=True)


class UrlsBody(Body):
    """URLs, with a priority class."""

    urls: Annotated[
        list[Annotated[str, Field(max_length=65_536)]], Field(min_length=1, max_length=MAX_URLS)
    ]
    priority: Annotated[str, Field(max_length=20)] | Annotated[int, Field(ge=0, le=3)] | None = (
        Field(None, description="0..3 or critical, high, normal, low, immediate")
    )


class SeedsBody(UrlsBody):
    """URLs for the frontier, with what is to be kept of them."""

    depth: int | None = Field(None, ge=0, le=1000, description="links from a seed")
    mode: Literal["keep", "update", "overwrite"] = Field(
        "keep", description="what becomes of a URL that is known"
    )
    source: str | None = Field(None, max_length=300, description="who gives them; kept")
    time: str | float | None = Field(None, description="when they were found; kept")
    metadata: dict[str, Any] | None = Field(None, description="kept as crawldb.metadata")


class BoostBody(UrlsBody):
    """URLs, with points for their score."""

    boost: float = Field(ge=-100, le=100)


class HostBody(Body):
    """A host, or a registered domain with all its hosts."""

    host: Annotated[str, Field(max_length=300)] | None = None
    domain: Annotated[str, Field(max_length=300)] | None = Field(
        None,
        description=(
            "registered domain with all its hosts; the name of one host means that host alone"
        ),
    )
    reason: str = Field("", max_length=2000)


class ComplaintBody(HostBody):
    """A complaint about a host or domain."""

    action: Literal["block", "slow"] = "block"


class PolicyBody(Body):
    """A host's pace and quotas."""

    delay_s: float | None = Field(
        None, ge=0, le=86_400, description="gap between requests; null: as configured"
    )
    parallel: int = Field(1, ge=1, le=100, description="requests at once")
    exempt: bool = Field(False, description="own site: no delay, no quota; robots.txt holds")
    quota_max: int | None = Field(
        None, ge=0, le=10**9, description="pages a day; null: as configured"
    )
    cycle_quota_max: int | None = Field(
        None, ge=0, le=10**9, description="pages a cycle; null: as configured"
    )
    weight: float | None = Field(
        None, ge=0, le=100, description="its scores are multiplied by this; null: as configured"
    )
    recrawl: Category | None = Field(
        None, description="how often its pages are fetched again; null: as configured"
    )


class ParamBody(Body):
    """A query parameter that does not choose a page of a host."""

    host: str = Field(max_length=300)
    name: str = Field(max_length=200)
    in_force: bool = True


class PublishedPolicyBody(Body):
    """A host's pace in the form of other crawlers."""

    crawl_delay_ms: int | None = Field(None, ge=0, le=86_400_000)
    max_concurrent: int = Field(1, ge=1, le=100)


class PingBody(Body):
    """The form of IndexNow (indexnow.org/documentation)."""

    host: str = Field(max_length=65_536)
    key: str = Field(max_length=65_536, description="8 to 128 letters, digits and hyphens")
    keyLocation: str | None = Field(None, max_length=65_536)
    urlList: Annotated[
        list[Annotated[str, Field(max_length=65_536)]], Field(min_length=1, max_length=MAX_URLS)
    ]


Offset = Annotated[int, Query(ge=0, le=10**9, description="items to pass over")]
Limit = Annotated[int, Query(ge=1, le=1000, description="items at most")]
DryRun = Annotated[bool, Query(description="check and report, change nothing")]
CommandId = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=80,
        pattern=r"^[A-Za-z0-9_.:+-]+$",
        description="name of the command: the same name is done once",
    ),
]
RoundName = Annotated[str, InPath(max_length=80, pattern=r"^[A-Za-z0-9_.:+-]+$")]
HostName = Annotated[str, InPath(max_length=300)]
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "cannot be done as requested"},
    401: {"description": "no token or a wrong one"},
    404: {"description": "no such thing"},
    409: {"description": "not in the crawl's state"},
    411: {"description": "no Content-Length"},
    413: {"description": "body too long"},
    503: {"description": "a store or lock is not to be had now; try again"},
}
