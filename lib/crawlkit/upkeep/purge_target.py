"""What a purge is about: a host, a domain or a URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crawlkit.crawl.state import Crawl
from crawlkit.crawl.waiting_pings import ping_hosts
from crawlkit.engine.frame import Engine, Frame
from crawlkit.rules.frontier.command_rules import host_name
from crawlkit.rules.url.canonical import canonicalize, host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.warc.stored_http import target_uri


class Target(NamedTuple):
    """What is to be removed. kind: host, domain or url; hosts: those concerned."""

    kind: str
    name: str
    hosts: list[str]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def matches_uri(self) -> Callable[[str], bool]:
        """A predicate over WARC target URIs: whether a record is of the target."""
        if self.kind == "url":
            uri = target_uri(self.name)
            return lambda found: found == uri
        names = set(self.hosts)
        return lambda found: "://" in found and host_of(found) in names

    def of(self, rows: Frame) -> Frame:
        """The target's rows among those with host and url_key."""
        column, names = self._names(rows.engine)
        query = f"SELECT r.* FROM {{rows}} AS r SEMI JOIN {{names}} AS t ON r.{column} = t.name"
        return rows.engine.query(query, rows=rows, names=names)

    def without(self, rows: Frame, by_host: bool = False) -> Frame:
        """The other rows. by_host: of other hosts, for rows that have no url_key."""
        column, names = self._names(rows.engine, by_host)
        query = f"SELECT r.* FROM {{rows}} AS r ANTI JOIN {{names}} AS t ON r.{column} = t.name"
        return rows.engine.query(query, rows=rows, names=names)

    def mark(self, rows: Frame) -> Frame:
        """All rows, with `is_target`."""
        column, names = self._names(rows.engine)
        query = f"""
            SELECT /*+ BROADCAST(t) */ r.*, t.name IS NOT NULL AS is_target
            FROM {{rows}} AS r LEFT JOIN {{names}} AS t ON r.{column} = t.name
        """
        return rows.engine.query(query, rows=rows, names=names)

    def _names(self, engine: Engine, by_host: bool = False) -> tuple[str, Frame]:
        """The column by which a row is known as the target's, and its values (`name`)."""
        if self.kind == "url" and not by_host:
            return "url_key", engine.from_rows("name binary", [(url_key(self.name),)])
        return "host", engine.from_rows("name string", [(host,) for host in self.hosts])

    def buckets(self, n: int) -> set[int]:
        """The target's buckets of `n`."""
        return {host_bucket(registered_domain(h), n) for h in self.hosts}


def target_of(crawl: Crawl, kind: str, name: str) -> Target:
    """The target that an operator names. Raises Refused, BadCommand."""
    if kind == "url":
        url = canonicalize(name, policy=UrlPolicy.of(crawl.cfg.urls))
        return Target(kind, url, [host_of(url)])
    name = host_name(name, kind)
    if kind == "host":
        return Target(kind, name, [name])
    return Target(kind, name, sorted(_hosts_of_domain(crawl, name) | {name}))


def _hosts_of_domain(crawl: Crawl, domain: str) -> set[str]:
    bucket = [host_bucket(domain, crawl.cfg.frontier.buckets)]
    rows = crawl.plain_tables().rows("crawldb", ["host", "domain"], {"host_bucket": bucket})
    pinged = {h for h in ping_hosts(crawl.objects) if registered_domain(h) == domain}
    return pinged | {r["host"] for r in rows if r["domain"] == domain}
