"""How to treat hosts: sections politeness, retry, breaker, robots, lease."""

from __future__ import annotations

from typing import Literal

from crawlkit.config.section import Section, setting


class Politeness(Section):
    delay_s: float = setting(
        1.0, "Gap between two requests to one host (end of an answer to the next start).", ge=0
    )
    domain_delay_s: float = setting(0.5, "Floor of the gap within a registered domain.", ge=0)
    ip_delay_s: float = setting(0.5, "Floor of the gap to one address within a task.", ge=0)
    slow_ms: int = setting(
        2000, "An answer slower than this lengthens the delay (x1.5, up to max_delay_s).", ge=1
    )
    quick_ms: int = setting(
        500, "An answer quicker than this shortens it (x0.8, down to its floor).", ge=0
    )
    max_delay_s: float = setting(30.0, "Ceiling of the adaptive delay.", gt=0)
    max_backoff_s: float = setting(60.0, "Ceiling of the delay after 429 and 503.", gt=0)
    max_retry_after_s: float = setting(86_400.0, "Retry-After is obeyed up to this.", gt=0)
    crawl_delay_ceiling_s: float = setting(
        300.0,
        "A robots Crawl-delay above this: the host waits this long between requests at least and"
        " gets fewer URLs.",
        gt=0,
    )
    host_day_quota: int = setting(100_000, "Pages of one host a UTC day.", ge=0)
    host_cycle_quota: int = setting(100_000, "Pages of one host a cycle.", ge=0)
    domain_day_quota: int = setting(
        100_000,
        "Pages of one registered domain a UTC day: made-up subdomains share it. A host's own quota"
        " (`crawlkit host set`) that is higher lifts it.",
        ge=0,
    )
    domain_cycle_quota: int = setting(
        100_000, "Pages of one registered domain a cycle; likewise.", ge=0
    )
    cycle_days: int = setting(
        30,
        "Length of a cycle: fixed windows of so many UTC days, counted from 1970-01-01.",
        ge=1,
        le=36_500,
    )


class Retry(Section):
    delays_s: tuple[float, ...] = setting(
        (30.0, 120.0, 300.0),
        "Waits before the retries after connection errors, timeouts, 408 and 5xx.",
    )
    forbidden_s: float = setting(7 * 86_400.0, "A 403 is not tried again for this long.", gt=0)


class Breaker(Section):
    slow_error_share: float = setting(
        0.2, "Error share in a rolling hour that puts a host in the slow lane.", gt=0, le=1
    )
    slow_min_requests: int = setting(10, "Requests in that hour before the share counts.", ge=1)
    slow_lane_s: float = setting(3600.0, "Time in the slow lane.", gt=0)
    server_errors: int = setting(5, "Server errors in 24 h that take a host down.", ge=1)
    down_s: float = setting(3600.0, "First time down; doubles each time.", gt=0)
    max_down_s: float = setting(86_400.0, "Longest time down.", gt=0)
    blocked_run: int = setting(10, "403/429 answers in a row that mark a host as blocked.", ge=2)


class Robots(Section):
    ttl_s: float = setting(
        86_400.0, "A copy of robots.txt is used this long at most (RFC 9309 2.4).", gt=0
    )
    min_ttl_s: float = setting(
        3600.0, "A copy is used this long at least, whatever its Cache-Control says.", ge=0
    )
    retry_s: float = setting(
        600.0,
        "An unavailable robots.txt is requested again after this long, or after its Retry-After.",
        gt=0,
    )
    on_429: Literal["defer", "allow"] = setting(
        "defer", "429 for robots.txt: defer the host (default) or treat as other 4xx."
    )
    max_bytes: int = setting(
        512_000, "Bytes of robots.txt that are parsed (RFC 9309 2.5: at least 500 KiB).", ge=512_000
    )
    max_redirects: int = setting(5, "Redirect hops followed for robots.txt.", ge=5, le=20)


class Lease(Section):
    ttl_s: float = setting(60.0, "Slot lease and commit lock: expiry.", gt=0)
    renew_s: float = setting(10.0, "Renewal interval.", gt=0)
    margin_s: float = setting(5.0, "Safety margin around an expiry.", ge=0)
