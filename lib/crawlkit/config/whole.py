"""The whole configuration: one pydantic model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from pydantic import model_validator

from crawlkit.config.content_sections import Dedup, Freshness, Parse, Render, Schedule, Warc
from crawlkit.config.fetch_section import Fetch
from crawlkit.config.operation_sections import (
    S3,
    Alerts,
    ControlApi,
    EngineConfig,
    Maintain,
    SparkConfig,
    Storage,
)
from crawlkit.config.politeness_sections import Breaker, Lease, Politeness, Retry, Robots
from crawlkit.config.scope_sections import (
    PLACEHOLDER_INFO_URL,
    Agent,
    Crawl,
    Frontier,
    Round,
    ScopeConfig,
    Urls,
)
from crawlkit.config.section import ConfigError, Section


class Config(Section):
    """The whole configuration."""

    crawl: Crawl = Crawl()
    agent: Agent = Agent.model_validate({})
    urls: Urls = Urls()
    scope: ScopeConfig = ScopeConfig()
    frontier: Frontier = Frontier()
    round: Round = Round()
    fetch: Fetch = Fetch()
    politeness: Politeness = Politeness()
    retry: Retry = Retry()
    breaker: Breaker = Breaker()
    robots: Robots = Robots()
    lease: Lease = Lease()
    warc: Warc = Warc()
    parse: Parse = Parse()
    render: Render = Render()
    dedup: Dedup = Dedup()
    schedule: Schedule = Schedule()
    freshness: Freshness = Freshness()
    maintain: Maintain = Maintain()
    alerts: Alerts = Alerts()
    control: ControlApi = ControlApi()
    engine: EngineConfig = EngineConfig()
    spark: SparkConfig = SparkConfig()
    storage: Storage = Storage()
    s3: S3 = S3()

    @model_validator(mode="after")
    def _lease_covers_a_request(self) -> "Config":
        need = self.fetch.timeout_s + 2 * self.lease.renew_s + 2 * self.lease.margin_s
        if self.lease.ttl_s < need:
            raise ValueError(
                f"lease.ttl_s is {self.lease.ttl_s:g} but must be at least fetch.timeout_s + 2 x"
                f" lease.renew_s + 2 x lease.margin_s = {need:g}"
            )
        return self

    def check_agent(self, hosts: Iterable[str]) -> None:
        """The placeholder agent may only speak to loopback.

        Raises ConfigError that names the first other host.
        """
        if self.agent.info_url != PLACEHOLDER_INFO_URL:
            return
        for host in hosts:
            if not self.fetch.is_loopback(host):
                raise ConfigError(
                    f"agent.info_url is still the placeholder, so {host} is not asked: set it to a"
                    " page that explains your crawler and how to opt out (`crawlkit agent-page`"
                    " writes one), for example --set agent.info_url=https://you.example/bot"
                )

    def digest(self) -> str:
        """SHA-256 (hex, 16 digits) of the configuration, stored with each round."""
        return hashlib.sha256(
            json.dumps(self.model_dump(by_alias=True), sort_keys=True, default=str).encode()
        ).hexdigest()[:16]
