"""The configuration: one pydantic model; a YAML file, then `--set a.b=c`, override its defaults.

An unknown key is an error that names file, line and key and suggests the nearest known one.
`docs/configuration.md` and `conf/default.yaml` are generated from this model (`python -m
crawlkit.config`).
"""

from __future__ import annotations

import difflib
import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crawlkit import __version__

Value = TypeVar("Value")
MAX_NODES, MAX_DEPTH = 100_000, 50  # of one YAML document, its aliases unfolded
PLACEHOLDER_INFO_URL = "https://example.invalid/crawler"


class ConfigError(ValueError):
    """The configuration is unusable; the message names source, line, key and the fix."""

    exit_code = 2


def _f(default: Any, text: str, **kw: Any) -> Any:
    return Field(default, description=text, **kw)


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _number(cls, v: Any, info: ValidationInfo) -> Any:
        if isinstance(v, bool) and cls.model_fields[info.field_name or ""].annotation in (
            int,
            float,
        ):
            raise ValueError(
                "expected a number"
            )  # YAML's yes and on are true, which would count as 1
        return v


def of_host(settings: Mapping[str, Value], host: str) -> Value | None:
    """The setting of a host: its own entry, else that of the longest `*.suffix` that covers it,
    else of `*`.
    """
    found = settings.get(host)
    while found is None and host:
        host = host.partition(".")[2]
        found = settings.get(f"*.{host}" if host else "*")
    return found


class Crawl(Section):
    id: str = _f(
        "crawl",
        "Name of the crawl; stands in every WARC file name.",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
    )


class Agent(Section):
    name: str = _f(
        "crawlkit",
        "Product token (RFC 9309 2.2.1): letters, _ and -; matched against robots.txt groups.",
        pattern=r"^[A-Za-z_-]{1,64}$",
    )
    version: str = _f(__version__, "Version in the User-Agent.", pattern=r"^[0-9A-Za-z.+-]{1,32}$")
    info_url: str = _f(
        PLACEHOLDER_INFO_URL,
        "Page that explains the crawler and how to opt out. The placeholder is refused outside"
        " loopback.",
        pattern=r"^https?://[!-~]{1,500}$",
    )
    from_: str | None = Field(
        None,
        alias="from",
        description="Contact mail address, sent as From when set.",
        pattern=r"^[^\s@]{1,64}@[^\s@]{1,255}$",
    )

    mobile_hosts: tuple[str, ...] = _f(
        (),
        "Host names or *.suffix that are asked as a phone, to capture their mobile variants; the"
        " User-Agent keeps our token.",
    )

    @property
    def user_agent(self) -> str:
        """`Mozilla/5.0 (compatible; NAME/VERSION; +URL)` (RFC 9110 10.1.5)."""
        return f"Mozilla/5.0 {self._token}"

    @property
    def mobile_user_agent(self) -> str:
        """A phone's, with our token at the end."""
        return (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Mobile"
            f" Safari/537.36 {self._token}"
        )

    def user_agent_of(self, host: str) -> str:
        """What a host is told."""
        return (
            self.mobile_user_agent
            if self.mobile_hosts and of_host(dict.fromkeys(self.mobile_hosts, True), host)
            else self.user_agent
        )

    @property
    def _token(self) -> str:
        return f"(compatible; {self.name}/{self.version}; +{self.info_url})"


class Urls(Section):
    remove_tracking: bool = _f(True, "Remove tracking parameters (utm_*, gclid, ...) from queries.")
    remove_session: bool = _f(True, "Remove session parameters (PHPSESSID, ;jsessionid=, ...).")
    extra_tracking: tuple[str, ...] = _f(
        (), "Further tracking parameter names; a final * matches any ending."
    )
    extra_session: tuple[str, ...] = _f(
        (), "Further session parameter names; a final * matches any ending."
    )
    host_params: dict[str, tuple[str, ...]] = _f(
        {}, "Host -> parameters that do not choose a page there and are removed."
    )
    collapse_repeats: bool = _f(False, "Keep equal name=value pairs of a query once.")
    keep_route_fragments: tuple[str, ...] = _f(
        (), "Hosts whose fragments #/... and #!... are part of the URL."
    )
    fold_www: bool = _f(
        False, "Drop a leading www. of the host; merges distinct sites where the two differ."
    )
    fold_index: bool = _f(False, "Drop index.html, default.aspx and the like at the end of a path.")
    fold_slash: bool = _f(False, "Drop slashes at the end of a path.")


class ScopeConfig(Section):
    hosts: tuple[str, ...] = _f(
        (),
        "Crawl these host names. With hosts, domains and prefixes all empty everything is in scope;"
        " else what one of them names.",
    )
    domains: tuple[str, ...] = _f((), "Crawl these domains and what is below them.")
    prefixes: tuple[str, ...] = _f((), "Crawl URLs that start with these texts.")
    exclude_patterns: tuple[str, ...] = _f(
        (), "Regular expressions (RE2 syntax: linear time); a URL in which one is found is refused."
    )
    max_depth: int = _f(15, "Links from a seed at most.", ge=0, le=1000)
    max_url_bytes: int = _f(2048, "Longest canonical URL.", ge=64, le=65536)
    max_repeated_segments: int = _f(
        3, "A path in which one segment occurs more often is refused.", ge=1
    )
    min_year: int = _f(1990, "Calendar paths before this year are refused.")
    max_years_ahead: int = _f(2, "Calendar paths further in the future are refused.")
    media_extensions: tuple[str, ...] = _f(
        (
            "3gp",
            "aac",
            "aif",
            "apng",
            "avi",
            "avif",
            "bmp",
            "flac",
            "flv",
            "gif",
            "heic",
            "ico",
            "jfif",
            "jpeg",
            "jpg",
            "m3u8",
            "m4a",
            "m4v",
            "mid",
            "mkv",
            "mov",
            "mp3",
            "mp4",
            "mpeg",
            "mpg",
            "oga",
            "ogg",
            "ogv",
            "opus",
            "png",
            "psd",
            "svg",
            "tif",
            "tiff",
            "wav",
            "webm",
            "webp",
            "wma",
            "wmv",
        ),
        "File name endings of images, sound and video: such links are recorded and not crawled.",
    )
    skip_extensions: tuple[str, ...] = _f(
        (
            "7z",
            "apk",
            "bin",
            "bz2",
            "css",
            "deb",
            "dmg",
            "eot",
            "exe",
            "gz",
            "iso",
            "jar",
            "js",
            "map",
            "mjs",
            "msi",
            "otf",
            "pkg",
            "rar",
            "rpm",
            "tar",
            "tgz",
            "ttf",
            "wasm",
            "woff",
            "woff2",
            "xz",
            "zip",
            "zst",
        ),
        "File name endings of other links that are not crawled: archives, programs, fonts, scripts,"
        " style sheets.",
    )


class Frontier(Section):
    buckets: int = _f(
        8, "Number of host buckets N, a power of two; about a million URLs each.", ge=1, le=65536
    )
    buckets_per_round: int = _f(64, "At most M buckets in a round, the most due first.", ge=1)
    explore: float = _f(0.2, "Share of a round that explores low-scored URLs.", ge=0, le=1)
    sitemaps: bool = _f(
        True, "Fetch the sitemaps that robots.txt names, and put their pages into the frontier."
    )
    guess_sitemap: bool = _f(
        True, "Try /sitemap.xml once for an origin whose robots.txt names no sitemap."
    )
    feeds: bool = _f(
        True,
        "Fetch the RSS and Atom feeds that pages name, and put their entries into the frontier.",
    )
    hot_hosts: tuple[str, ...] = _f((), "Registered domains that get a task of their own.")
    hot_share: float = _f(
        0.25,
        "A domain with more than this share of a round's rows gets a task of its own.",
        gt=0,
        le=1,
    )

    @field_validator("buckets")
    @classmethod
    def _power_of_two(cls, v: int) -> int:
        if v & (v - 1):
            raise ValueError("must be a power of two (1, 2, 4, 8, ...)")
        return v


class Round(Section):
    minutes: float = _f(
        30.0, "Time budget of the fetch stage; what does not fit is deferred.", gt=0
    )
    max_urls: int = _f(100_000, "Most URLs of one round.", ge=1)
    urls_per_host: int = _f(1000, "Most URLs of one host in one round; 0 selects none.", ge=0)


class Fetch(Section):
    slots: int = _f(
        2,
        "Fetch tasks of a round (with regions: of each); as many as can run at once.",
        ge=1,
        le=10_000,
    )
    regions: dict[str, tuple[str, ...]] = _f(
        {},
        "Region -> registered domains, *.suffix (*.de) or * that are fetched there, each region by"
        " a `crawlkit fetch --region` of its own; what no pattern covers goes to the first.",
    )
    regions_down: tuple[str, ...] = _f(
        (), "Regions that cannot fetch: their domains go to the nearest other one."
    )
    nearest: dict[str, tuple[str, ...]] = _f(
        {}, "Region -> those that take its place, nearest first; then the others in their order."
    )
    in_flight: int = _f(200, "Requests in flight in one task, one a host.", ge=1, le=2000)
    timeout_s: float = _f(30.0, "Total deadline of one request.", gt=0)
    connect_timeout_s: float = _f(10.0, "Deadline to connect, TLS included.", gt=0)
    min_bytes_per_s: int = _f(100, "A body slower than this over 10 s is cut; 0 never cuts.", ge=0)
    max_body_bytes: int = _f(
        10 * 1024 * 1024, "A longer body is cut, kept and marked (WARC-Truncated: length).", ge=1024
    )
    body_memory_bytes: int = _f(
        16 * 1024 * 1024,
        "Bodies of one task that are in memory; beyond it all connections but one wait until some"
        " are stored.",
        ge=1024 * 1024,
    )
    max_redirects: int = _f(
        10, "Longest chain of page redirects (each hop is a later fetch).", ge=0, le=50
    )
    allow_private: tuple[str, ...] = _f(
        (), "Networks (CIDR) that the address guard lets through although they are not public."
    )
    deny: tuple[str, ...] = _f(
        (), "Networks (CIDR) never connected to; comes before allow_private."
    )
    ports: tuple[int, ...] = _f((80, 443), "Ports that may be connected to.")
    connect_to: dict[str, str] = _f(
        {},
        "Host name or *.suffix -> address:port to connect to instead of a look-up (the guard still"
        " applies to the address).",
    )
    resolvers: tuple[str, ...] = _f(
        (),
        "Name servers, used in this order while they answer: address, address:port, or"
        " https://host/path (DNS over HTTPS); empty: the system's.",
    )
    proxy: dict[str, str] = _f(
        {},
        "Host name, *.suffix or * -> http://[user:password@]host:port or socks5://..., which"
        " resolves the name (looked up here only to be checked; with socks5h:// not at all); empty"
        " text: none. env:NAME or file:PATH is read when a task starts.",
    )
    session_headers: dict[str, dict[str, str]] = _f(
        {},
        "Host name or *.suffix -> request fields (credentials) sent there only and never stored; a"
        " value env:NAME or file:PATH is read when a task starts.",
    )
    cookie_hosts: tuple[str, ...] = _f(
        (), "Host names whose cookies are sent back within a task; cookies are never stored."
    )
    unverified_tls_hosts: tuple[str, ...] = _f(
        (), "Host names whose certificate is not verified; their pages are flagged."
    )
    content_types: tuple[str, ...] = _f(
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
        ),
        "Body read only if Content-Type starts with one of these or is missing; empty: any.",
    )
    engine: Literal["native", "requests"] = _f(
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
        for host, to in v.items():  # a value may hold credentials: it stands in no message
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


class Politeness(Section):
    delay_s: float = _f(
        1.0, "Gap between two requests to one host (end of an answer to the next start).", ge=0
    )
    domain_delay_s: float = _f(0.5, "Floor of the gap within a registered domain.", ge=0)
    ip_delay_s: float = _f(0.5, "Floor of the gap to one address within a task.", ge=0)
    slow_ms: int = _f(
        2000, "An answer slower than this lengthens the delay (x1.5, up to max_delay_s).", ge=1
    )
    quick_ms: int = _f(
        500, "An answer quicker than this shortens it (x0.8, down to its floor).", ge=0
    )
    max_delay_s: float = _f(30.0, "Ceiling of the adaptive delay.", gt=0)
    max_backoff_s: float = _f(60.0, "Ceiling of the delay after 429 and 503.", gt=0)
    max_retry_after_s: float = _f(86_400.0, "Retry-After is obeyed up to this.", gt=0)
    crawl_delay_ceiling_s: float = _f(
        300.0,
        "A robots Crawl-delay above this: the host waits this long between requests at least and"
        " gets fewer URLs.",
        gt=0,
    )
    host_day_quota: int = _f(100_000, "Pages of one host a UTC day.", ge=0)
    host_cycle_quota: int = _f(100_000, "Pages of one host a cycle.", ge=0)
    cycle_days: int = _f(
        30,
        "Length of a cycle: fixed windows of so many UTC days, counted from 1970-01-01.",
        ge=1,
        le=36_500,
    )


class Retry(Section):
    delays_s: tuple[float, ...] = _f(
        (30.0, 120.0, 300.0),
        "Waits before the retries after connection errors, timeouts, 408 and 5xx.",
    )
    forbidden_s: float = _f(7 * 86_400.0, "A 403 is not tried again for this long.", gt=0)


class Breaker(Section):
    slow_error_share: float = _f(
        0.2, "Error share in a rolling hour that puts a host in the slow lane.", gt=0, le=1
    )
    slow_min_requests: int = _f(10, "Requests in that hour before the share counts.", ge=1)
    slow_lane_s: float = _f(3600.0, "Time in the slow lane.", gt=0)
    server_errors: int = _f(5, "Server errors in 24 h that take a host down.", ge=1)
    down_s: float = _f(3600.0, "First time down; doubles each time.", gt=0)
    max_down_s: float = _f(86_400.0, "Longest time down.", gt=0)
    blocked_run: int = _f(10, "403/429 answers in a row that mark a host as blocked.", ge=2)


class Robots(Section):
    ttl_s: float = _f(
        86_400.0, "A copy of robots.txt is used this long at most (RFC 9309 2.4).", gt=0
    )
    min_ttl_s: float = _f(
        3600.0, "A copy is used this long at least, whatever its Cache-Control says.", ge=0
    )
    retry_s: float = _f(
        600.0,
        "An unreadable robots.txt is asked for again after this long, or after its Retry-After.",
        gt=0,
    )
    on_429: Literal["defer", "allow"] = _f(
        "defer", "429 for robots.txt: defer the host (default) or treat as other 4xx."
    )
    max_bytes: int = _f(
        512_000, "Bytes of robots.txt that are parsed (RFC 9309 2.5: at least 500 KiB).", ge=512_000
    )
    max_redirects: int = _f(5, "Redirect hops followed for robots.txt.", ge=5, le=20)


class Lease(Section):
    ttl_s: float = _f(60.0, "Slot lease and commit lock: expiry.", gt=0)
    renew_s: float = _f(10.0, "Renewal interval.", gt=0)
    margin_s: float = _f(5.0, "Safety margin around an expiry.", ge=0)


class Warc(Section):
    roll_bytes: int = _f(128 * 1024 * 1024, "A WARC file is closed at this size ...", ge=1024)
    roll_s: float = _f(
        60.0, "... or this age, so that little is fetched again after a crash.", gt=0
    )
    set_cookie: bool = _f(
        False,
        "Store the Set-Cookie lines of responses; those of a session (fetch.cookie_hosts,"
        " fetch.session_headers) never are.",
    )
    pack_bytes: int = _f(
        1024 * 1024 * 1024, "maintain packs small files to about this size.", ge=1024
    )


class Dedup(Section):
    hamming: int = _f(
        3, "SimHash distance of near-duplicates (with verified Jaccard >= 0.5).", ge=0, le=10
    )
    jaccard: float = _f(0.8, "Verified Jaccard of near-duplicates found by MinHash.", gt=0, le=1)
    block_anchors: int = _f(
        10,
        "First texts of a candidate block with which each later one is compared; in longer blocks"
        " also with its nearest by SimHash. Longer blocks are counted (blocks_cut).",
        ge=1,
        le=1000,
    )


class Parse(Section):
    low_quality: float = _f(
        0.3, "Hosts of a lower quality (host_ranks) are low-quality hosts.", ge=0, le=1
    )
    outlinks_low_quality: int = _f(200, "Outlinks kept of a page of a low-quality host.", ge=0)
    outlinks: int = _f(5000, "Outlinks kept of any page.", ge=0)
    same_shape: int = _f(
        500, "A page with more outlinks of one shape is flagged many_same_shape.", ge=1
    )
    page_timeout_s: float = _f(20.0, "A page that takes longer to parse is a reject.", gt=0)


class Schedule(Section):
    changed_factor: float = _f(0.5, "Interval x this after a change.", gt=0, le=1)
    unchanged_factor: float = _f(1.5, "Interval x this after no change.", ge=1)
    initial_s: tuple[float, float, float, float] = _f(
        (86_400.0, 7 * 86_400.0, 30 * 86_400.0, 90 * 86_400.0),
        "Starting interval by priority class 0..3, clamped to the host class.",
    )
    news_s: tuple[float, float] = _f((600.0, 6 * 3600.0), "Floor and ceiling for news hosts.")
    generic_s: tuple[float, float] = _f(
        (86_400.0, 30 * 86_400.0), "Floor and ceiling for generic hosts."
    )
    dormant_s: tuple[float, float] = _f(
        (30 * 86_400.0, 90 * 86_400.0), "Floor and ceiling for dormant hosts."
    )
    sitemap_s: tuple[float, float, float] = _f(
        (21_600.0, 86_400.0, 7 * 86_400.0), "Floor, start and ceiling of a sitemap's interval."
    )
    feed_s: tuple[float, float, float] = _f(
        (900.0, 3600.0, 86_400.0), "Floor, start and ceiling of a feed's interval."
    )
    news_hosts: tuple[str, ...] = _f((), "Hosts of class news.")
    dormant_hosts: tuple[str, ...] = _f((), "Hosts of class dormant.")


class Maintain(Section):
    vacuum_hours: float = _f(
        168.0,
        "Table files no longer referenced are removed after this many hours; while a round is open,"
        " none that is younger.",
        ge=0,
    )
    orphan_hours: float = _f(
        24.0, "WARC files that no capture names are removed after this many hours.", ge=0
    )
    raw_days: float = _f(
        90.0,
        "Stored records that nothing refers to, fetch lists and part manifests are removed after"
        " this many days; 0 keeps them.",
        ge=0,
    )
    raw_share: float = _f(0.3, "A WARC file is written anew once so much of it may go.", ge=0, le=1)
    snapshot_days: float = _f(
        92.0,
        "Daily snapshots below export/urls are removed after this many days; 0 keeps them.",
        ge=0,
    )


class Alerts(Section):
    """Thresholds of the alert rules (docs/alerts.md)."""

    target_pages_per_s: float = _f(
        0.0,
        "Pages a second that the fetch stage is to reach; 0: no target, so no alert about the"
        " rate.",
        ge=0,
    )
    min_answers: int = _f(50, "Shares and means of a round count from so many answers on.", ge=1)
    frontier_max: int = _f(100_000_000, "URLs that wait, at most.", ge=0)
    frontier_min: int = _f(10_000, "URLs that wait, at least.", ge=0)
    error_share: float = _f(0.05, "Share of failed pages that warns.", ge=0, le=1)
    error_share_critical: float = _f(0.10, "Share of failed pages that is critical.", ge=0, le=1)
    throttled_share: float = _f(0.05, "Share of answers 429 or 503 that pages.", ge=0, le=1)
    dns_hit_share: float = _f(0.90, "Look-ups answered from the cache, at least.", ge=0, le=1)
    duplicate_share: float = _f(
        0.30, "Share of stored pages that are copies of others, at most.", ge=0, le=1
    )
    latency_ms: float = _f(3000.0, "Mean time of an answer, at most.", gt=0)
    render_queue: int = _f(10_000, "Pages that wait to be rendered, at most.", ge=0)
    growth_bytes_per_day: float = _f(4e12, "WARC bytes of a day, at most.", gt=0)
    workers: int = _f(1, "Fetch tasks that took part in a round, at least.", ge=0)
    filter_drift: float = _f(
        0.01, "Share of keys in which the seen filter and the table differ, at most.", ge=0, le=1
    )


class ControlApi(Section):
    """The control API (docs/api.md)."""

    token: str = _f(
        "env:CRAWLKIT_TOKEN",
        "Bearer token: env:NAME or file:PATH; at least 16 characters. Without one the API does not"
        " start.",
        pattern=r"^(env|file):.+$",
    )
    host: str = _f(
        "127.0.0.1",
        "Address to listen on. Anything but loopback needs a proxy with TLS before it.",
        min_length=1,
    )
    port: int = _f(8471, "Port to listen on; 0 picks one.", ge=0, le=65535)


class SparkConfig(Section):
    master: str = _f("local[2,4]", "Spark master; local[N,F]: plain local[N] never retries a task.")
    driver_memory: str = _f("2g", "Heap of the driver.", pattern=r"^[0-9]+[mg]$")
    shuffle_partitions: int = _f(2, "Partitions of joins.", ge=1)
    extra: dict[str, str] = _f({}, "Further Spark properties.")


class Storage(Section):
    tables: str = _f(
        "tables",
        "Folder or URI (s3a://bucket/prefix) of the Delta tables, below --data if relative.",
        pattern=r"^[^\x00]+$",
    )
    warc: str = _f(
        "warc",
        "Folder or s3://bucket/prefix of the WARC files, below --data if relative.",
        pattern=r"^[^\x00]+$",
    )
    state: str = _f(
        "state",
        "Folder or s3://bucket/prefix of the crawl's state, parts, leases and locks, below --data"
        " if relative.",
        pattern=r"^[^\x00]+$",
    )
    spool: str | None = _f(
        None,
        "Local folder of open WARC files and of what waits for the store; null: .tmp in a local"
        " WARC folder, else the system's folder for temporary files.",
    )
    spool_bytes: int = _f(
        100 * 10**9,
        "What a task keeps on local disk while the store does not answer; beyond it the task ends"
        " and its URLs are given back.",
        ge=0,
    )
    spool_s: float = _f(
        600.0,
        "How long a task waits for a store that does not answer before it ends and its URLs are"
        " given back.",
        ge=0,
    )


class S3(Section):
    """Access to S3 and what speaks like it.

    Credentials come from the usual AWS chain, never from here.
    """

    endpoint_url: str | None = _f(
        None, "Address of an S3-compatible store; null: AWS.", pattern=r"^https?://[^@\s]{1,500}$"
    )
    region: str | None = _f(
        None, "Region; null: as the AWS chain says.", pattern=r"^[a-z0-9-]{1,40}$"
    )
    path_style: bool = _f(
        False, "Bucket in the path, not in the host name (most S3-compatible stores)."
    )
    timeout_s: float = _f(20.0, "Deadline to connect, and of each wait for bytes.", gt=0)
    give_up_s: float = _f(30.0, "A call that fails is tried again for this long.", ge=0)
    part_bytes: int = _f(
        16 * 1024 * 1024, "Larger files are uploaded in parts of this size.", ge=5 * 1024 * 1024
    )


class Config(Section):
    """The whole configuration."""

    crawl: Crawl = Crawl()
    agent: Agent = Agent()
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
    dedup: Dedup = Dedup()
    schedule: Schedule = Schedule()
    maintain: Maintain = Maintain()
    alerts: Alerts = Alerts()
    control: ControlApi = ControlApi()
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

    def digest(self) -> str:
        """SHA-256 (hex, 16 digits) of the configuration, stored with each round."""
        return hashlib.sha256(
            json.dumps(self.model_dump(by_alias=True), sort_keys=True, default=str).encode()
        ).hexdigest()[:16]


Yaml = Annotated[dict[str, Any], "parsed YAML mapping"]


def known_keys(model: type[BaseModel] = Config, prefix: str = "") -> list[str]:
    """Every key as section.key, sections too."""
    keys: list[str] = []
    for name, info in model.model_fields.items():
        key = f"{prefix}{info.alias or name}"
        sub = info.annotation
        if isinstance(sub, type) and issubclass(sub, BaseModel):
            keys += [key, *known_keys(sub, key + ".")]
        else:
            keys.append(key)
    return keys


def _check_nodes(root: yaml.Node, source: str) -> None:
    """Refuses a key that stands twice in one mapping (the first would be ignored), and aliases that
    unfold without end.
    """
    stack, count = [(root, "", 0)], 0
    while stack:
        node, path, depth = stack.pop()
        count += 1
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise ConfigError(
                f"{source}: more than {MAX_NODES} values or nested deeper than {MAX_DEPTH}; not a"
                " configuration"
            )
        if isinstance(node, yaml.SequenceNode):
            stack += [(item, path, depth + 1) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            first: dict[str, yaml.Mark] = {}
            for key, value in node.value:
                name = key.value if isinstance(key, yaml.ScalarNode) else ""
                if name in first:
                    raise ConfigError(
                        f"{source}:{key.start_mark.line + 1}: {path}{name} is given twice (first in"
                        f" line {first[name].line + 1}); keep one"
                    )
                first[name] = key.start_mark
                stack.append((value, f"{path}{name}.", depth + 1))


def _line_of(text: str, path: tuple[Any, ...]) -> int | None:
    """Line (1-based) of a key path in YAML text, by the YAML node positions."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    line = None
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            break
        for key, value in node.value:
            if key.value == str(part):
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return line


_SECRET = {"proxy", "session_headers"}  # values that no message shows


def _explain(err: ValidationError, source: str, text: str) -> str:
    known = known_keys()
    out = []
    for e in err.errors():
        path = tuple(p for p in e["loc"])
        key = ".".join(str(p) for p in path)
        line = _line_of(text, path)
        where = f"{source}:{line}" if line else source
        if e["type"] == "extra_forbidden":
            near = difflib.get_close_matches(key, known, 1, 0.5) or [
                k for k in known if k.split(".")[-1] == str(path[-1])
            ]
            hint = (
                f"; did you mean {near[0]}?"
                if near
                else "; see docs/configuration.md for every key"
            )
            out.append(f"{where}: unknown key {key}{hint}")
        else:
            msg = e["msg"].removeprefix("Value error, ")
            got = (
                f" (got {e['input']!r:.80})"
                if key
                and not isinstance(e["input"], dict)
                and not _SECRET.intersection(map(str, path))
                else ""
            )
            out.append(f"{where}: {key + ': ' if key else ''}{msg}{got}")
    return "\n".join(out)


def _assign(tree: dict[str, Any], dotted: str) -> None:
    key, sep, raw = dotted.partition("=")
    if not sep or not re.fullmatch(r"[A-Za-z_][\w]*(\.[A-Za-z_][\w]*)+", key):
        raise ConfigError(
            f"--set {dotted}: expected section.key=value, for example --set round.max_urls=500"
        )
    try:
        value = yaml.safe_load(raw) if raw else ""
    except yaml.YAMLError as e:
        raise ConfigError(f"--set {dotted}: the value is not YAML: {e}") from None
    *parents, last = key.split(".")
    for p in parents:
        tree = tree.setdefault(p, {})
        if not isinstance(tree, dict):
            raise ConfigError(f"--set {dotted}: {p} is not a section")
    tree[last] = value


def parse_config(text: str, source: str = "configuration", sets: tuple[str, ...] = ()) -> Config:
    """Configuration from YAML text and `--set` assignments. Raises ConfigError."""
    loader = None
    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        node = loader.get_single_node()
        if node is not None:
            _check_nodes(node, source)
        tree = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f"{source}:{mark.line + 1}" if mark else source
        raise ConfigError(f"{where}: not plain YAML: {getattr(e, 'problem', None) or e}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply") from None
    finally:
        if loader:
            loader.dispose()
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{source}:1: expected a mapping of sections, got {type(tree).__name__}")
    for s in sets:
        _assign(tree, s)
    try:
        return Config.model_validate(tree)
    except ValidationError as e:
        raise ConfigError(_explain(e, source, text)) from None


def load_config(path: str | Path | None, sets: tuple[str, ...] = ()) -> Config:
    """Configuration from a file (None: the defaults) and `--set` assignments.

    Raises ConfigError.
    """
    if path is None:
        return parse_config("", "--set" if sets else "defaults", sets)
    try:
        raw = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read: {e.strerror}") from None
    if len(raw) > 1_000_000:
        raise ConfigError(f"{path}: larger than 1 MB; not a configuration")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8 at byte {e.start}") from None
    return parse_config(text, str(path), sets)


def _documented(model: type[BaseModel], prefix: str = "") -> list[tuple[str, str, str]]:
    """(key, default as YAML, meaning) of every leaf."""
    out = []
    for name, info in model.model_fields.items():
        key = prefix + (info.alias or name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            out += _documented(info.annotation, key + ".")
        else:
            value = list(info.default) if isinstance(info.default, tuple) else info.default
            out.append((key, json.dumps(value), info.description or ""))
    return out


def to_markdown() -> str:
    """docs/configuration.md."""
    rows = [f"| `{k}` | `{d}` | {t} |" for k, d, t in _documented(Config)]
    return "\n".join(
        [
            "# Configuration",
            "",
            (
                "Generated from `lib/crawlkit/config.py` by `python -m crawlkit.config docs`. A"
                " YAML file of sections (`--config FILE`), then"
            ),
            "`--set section.key=value`, override these defaults. An unknown key is an error.",
            "",
            "| key | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def to_yaml() -> str:
    """conf/default.yaml: every key with its default and meaning."""
    out, section = (
        ["# Every key with its default; generated by `python -m crawlkit.config yaml`."],
        None,
    )
    for key, default, text in _documented(Config):
        head, name = key.split(".", 1)
        if head != section:
            section = head
            out += ["", f"{head}:"]
        out += [f"  # {text}", f"  {name}: {default}"]
    return "\n".join([*out, ""])


if __name__ == "__main__":
    import sys

    print(to_yaml() if sys.argv[1:] == ["yaml"] else to_markdown(), end="")
