"""Section fetch."""

from __future__ import annotations

import ipaddress
import re
from typing import Literal

from pydantic import field_validator, model_validator

from crawlkit.config.section import Section, of_host, setting


class Fetch(Section):
    slots: int = setting(
        2,
        "Fetch tasks of a round (with regions: of each); as many as can run at once.",
        ge=1,
        le=10_000,
    )
    regions: dict[str, tuple[str, ...]] = setting(
        {},
        "Region -> registered domains, *.suffix (*.de) or * that are fetched there, each region by"
        " a `crawlkit fetch --region` of its own; what no pattern covers goes to the first. With"
        " fetch.geoip also country:DE and continent:EU (docs/operations.md).",
    )
    geoip: str | None = setting(
        None,
        "File in MaxMind's format (mmdb) that tells the country of an address; needs the extra"
        " crawlkit[geoip]. null: regions by name alone.",
        min_length=1,
    )
    regions_down: tuple[str, ...] = setting(
        (), "Regions that cannot fetch: their domains go to the nearest other one."
    )
    nearest: dict[str, tuple[str, ...]] = setting(
        {}, "Region -> those that take its place, nearest first; then the others in their order."
    )
    in_flight: int = setting(200, "Requests in flight in one task, one a host.", ge=1, le=2000)
    timeout_s: float = setting(30.0, "Total deadline of one request.", gt=0)
    connect_timeout_s: float = setting(10.0, "Deadline to connect, TLS included.", gt=0)
    min_bytes_per_s: int = setting(
        100, "A body slower than this over 10 s is cut; 0 never cuts.", ge=0
    )
    max_body_bytes: int = setting(
        10 * 1024 * 1024, "A longer body is cut, kept and marked (WARC-Truncated: length).", ge=1024
    )
    body_memory_bytes: int = setting(
        16 * 1024 * 1024,
        "Bodies of one task that are in memory; beyond it all connections but one wait until some"
        " are stored.",
        ge=1024 * 1024,
    )
    max_redirects: int = setting(
        10, "Longest chain of page redirects (each hop is a later fetch).", ge=0, le=50
    )
    allow_private: tuple[str, ...] = setting(
        (), "Networks (CIDR) that the address guard lets through although they are not public."
    )
    deny: tuple[str, ...] = setting(
        (), "Networks (CIDR) never connected to; comes before allow_private."
    )
    ports: tuple[int, ...] = setting((80, 443), "Ports that may be connected to.")
    connect_to: dict[str, str] = setting(
        {},
        "Host name or *.suffix -> address:port to connect to instead of a look-up (the guard still"
        " applies to the address).",
    )
    resolvers: tuple[str, ...] = setting(
        (),
        "Name servers, used in this order while they answer: address, address:port, or"
        " https://host/path (DNS over HTTPS); empty: the system's.",
    )
    proxy: dict[str, str] = setting(
        {},
        "Host name, *.suffix or * -> http://[user:password@]host:port or socks5://..., which"
        " resolves the name (looked up here only to be checked; with socks5h:// not at all); empty"
        " text: none. env:NAME or file:PATH is read when a task starts.",
    )
    session_headers: dict[str, dict[str, str]] = setting(
        {},
        "Host name or *.suffix -> request fields (credentials) sent there only and never stored; a"
        " value env:NAME or file:PATH is read when a task starts.",
    )
    cookie_hosts: tuple[str, ...] = setting(
        (), "Host names whose cookies are sent back within a task; cookies are never stored."
    )
    unverified_tls_hosts: tuple[str, ...] = setting(
        (), "Host names whose certificate is not verified; their pages are flagged."
    )
    content_types: tuple[str, ...] = setting(
        (
            "text/",
            "application/xhtml+xml",
            "application/xml",
            "application/json",
            "application/pdf",
            "application/rss+xml",
            "application/atom+xml",
            "application/ld+json",
            "application/feed+json",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        "Body read only if Content-Type starts with one of these or is missing; empty: any.",
    )
    engine: Literal["native", "requests"] = setting(
        "native", "native: the asyncio engine; requests: the reference engine."
    )

    @field_validator("connect_to")
    @classmethod
    def _address_port(cls, v: dict[str, str]) -> dict[str, str]:
        for to in v.values():
            address, _, port = to.rpartition(":")
            ipaddress.ip_address(address.strip("[]"))
            if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
                raise ValueError(f"{to!r} is not address:port")
        return v

    @field_validator("proxy")
    @classmethod
    def _proxy(cls, v: dict[str, str]) -> dict[str, str]:
        for host, to in v.items():  # a value may hold credentials: no message shows it
            if to and not re.fullmatch(
                r"(?:http|socks5h?)://(?:[^@/\s]*@)?(?:[A-Za-z0-9.-]+"
                r"|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}/?|(?:env|file):\S.*",
                to,
            ):
                raise ValueError(
                    f"the proxy of {host} is not http://host:port or socks5://host:port"
                )
        return v

    @field_validator("ports")
    @classmethod
    def _ports(cls, v: tuple[int, ...]) -> tuple[int, ...]:
        if bad := [port for port in v if not 0 < port < 65536]:
            raise ValueError(f"{bad[0]} is no port (1 to 65535)")
        return v

    @field_validator("resolvers")
    @classmethod
    def _resolvers(cls, v: tuple[str, ...]) -> tuple[str, ...]:
        for at in v:
            if re.fullmatch(r"https://[^/\s]+/\S*", at):
                continue
            m = re.fullmatch(r"\[([^\]]+)\](?::([0-9]{1,5}))?|([^:]+)(?::([0-9]{1,5}))?|(.+)", at)
            address, port = (m[1] or m[3] or m[5], int(m[2] or m[4] or 53)) if m else ("", 0)
            try:
                known = bool(ipaddress.ip_address(address)) and 0 < port < 65536
            except ValueError:
                known = False
            if not known:
                raise ValueError(
                    f"{at!r:.60} is no name server: write address, address:port, [address]:port or"
                    " https://host/path"
                )
        return v

    @field_validator("session_headers")
    @classmethod
    def _fields(cls, v: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for host, fields in v.items():
            for name in fields:
                if not re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", name) or name.lower() in (
                    "host",
                    "content-length",
                    "transfer-encoding",
                    "connection",
                ):
                    raise ValueError(f"{host}: {name!r:.40} is not a field that may be set")
        return v

    @model_validator(mode="after")
    def _known_regions(self) -> Fetch:
        for name in self.regions:
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", name):
                raise ValueError(f"fetch.regions: {name!r:.60}: use letters, digits, _ and -")
        if unknown := {
            *self.regions_down,
            *self.nearest,
            *(r for rs in self.nearest.values() for r in rs),
        } - set(self.regions):
            raise ValueError(
                f"fetch.regions_down, fetch.nearest: {min(unknown)!r:.60} is no region of"
                " fetch.regions"
            )
        if self.regions and set(self.regions) == set(self.regions_down):
            raise ValueError("fetch.regions_down: every region is down; nothing could be fetched")
        return self

    @model_validator(mode="after")
    def _proxied_by_native(self) -> Fetch:
        if self.engine != "native" and any(self.proxy.values()):
            raise ValueError("fetch.proxy needs fetch.engine native")
        return self

    @field_validator("allow_private", "deny")
    @classmethod
    def _cidr(cls, v: tuple[str, ...]) -> tuple[str, ...]:
        for net in v:
            ipaddress.ip_network(net)
        return v

    def is_loopback(self, host: str) -> bool:
        """Whether a host is reached on this machine only: by connect_to, by its address, or as
        localhost.
        """
        target = self.connect_to_of(host)
        name = target.rsplit(":", 1)[0] if target else host
        try:
            return ipaddress.ip_address(name.strip("[]")).is_loopback
        except ValueError:
            return name == "localhost" or name.endswith(".localhost")

    def connect_to_of(self, host: str) -> str | None:
        """The connect_to target of a host: its own entry, else the longest `*.suffix` that covers
        it, else `*`.
        """
        return of_host(self.connect_to, host)
