"""The closed lists: states of a URL, outcomes of a planned fetch, reasons of every refusal.

A value that is not in these lists is a defect; `rejects.reason`, `captures.reason` and
`crawldb.error_type` hold nothing else.
"""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Life cycle of a URL in `crawldb`.

    `leased` is derived: queued in a claimed bucket's fetchlist.
    """

    QUEUED = "queued"
    ROBOTS_SKIPPED = "robots_skipped"
    FETCHED = "fetched"
    REDIRECTED = "redirected"
    RETRYING = "retrying"
    REFUSED = "refused"
    DEAD = "dead"


class Outcome(StrEnum):
    """What became of one planned fetch: exactly one per fetchlist row."""

    FETCHED = "fetched"  # 2xx stored
    NOT_MODIFIED = "not_modified"  # 304
    REDIRECTED = "redirected"  # 3xx with a usable Location
    HTTP_ERROR = (  # 4xx, 5xx, or a 3xx that leads nowhere; reason http_404, http_5xx ...
        "http_error"
    )
    FAILED = "failed"  # no complete answer; reason says why
    ROBOTS_DENIED = "robots_denied"  # a rule of robots.txt forbids it
    REFUSED = "refused"  # our own guard or filter forbids it; never sent, or cut before the body
    DEFERRED = "deferred"  # not now: given back, due as before
    ROBOTS_CACHED = "robots_cached"  # a robots row whose copy was still fresh: no request


class Reason(StrEnum):
    """Why a row was refused, failed, deferred or flagged."""

    # URLs (rules/url/canonical.py)
    URL_INVALID = "url_invalid"
    URL_SCHEME = "url_scheme"
    URL_HOST_EMPTY = "url_host_empty"
    URL_TOO_LONG = "url_too_long"
    # scope (rules/url/scope.py)
    SCOPE_HOST = "scope_host"
    SCOPE_DOMAIN = "scope_domain"
    SCOPE_PREFIX = "scope_prefix"
    SCOPE_PATTERN = "scope_pattern"
    SCOPE_DEPTH = "scope_depth"
    SCOPE_PATH_LENGTH = "scope_path_length"
    SCOPE_REPEATED_SEGMENTS = "scope_repeated_segments"
    SCOPE_DATE_RANGE = "scope_date_range"
    SCOPE_SESSION_ID = "scope_session_id"
    SCOPE_EXTENSION = "scope_extension"
    OUTLINK_CAP = "outlink_cap"
    SITEMAP_FOREIGN = "sitemap_foreign"  # an address that this sitemap may not name
    NOFOLLOW = "nofollow"
    MEDIA_NOT_CRAWLED = "media_not_crawled"
    HUB_LINK = "hub_link"  # WebSub: a hub, or the name of a topic; no page
    KEY_UNPROVEN = "key_unproven"  # IndexNow: the host does not hold the key of the ping
    # robots
    ROBOTS_RULE = "robots_rule"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    ROBOTS_429 = "robots_429"
    ROBOTS_FOREIGN_HOST = (  # a robots redirect to a host of another slot, until the next round
        "robots_foreign_host"
    )
    # the guard (adapters/net/address_guard.py)
    ADDRESS_FORBIDDEN = "address_forbidden"
    PORT_FORBIDDEN = "port_forbidden"
    # the network
    DNS_FAIL = "dns_fail"
    DNS_NXDOMAIN = "dns_nxdomain"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMEOUT = "connect_timeout"
    CONNECT_FAIL = "connect_fail"
    PROXY_FAIL = "proxy_fail"  # the configured proxy cannot be reached or refuses
    TLS_CERT_INVALID = "tls_cert_invalid"
    TLS_CERT_EXPIRED = "tls_cert_expired"
    TLS_NAME_MISMATCH = "tls_name_mismatch"
    TLS_FAIL = "tls_fail"
    TIMEOUT = "timeout"
    READ_STALLED = "read_stalled"
    DISCONNECTED = "disconnected"  # closed or reset before a whole header
    HTTP_MALFORMED = "http_malformed"
    HEADERS_TOO_LARGE = "headers_too_large"
    TOO_MANY_INTERIM = "too_many_interim"
    CONTENT_TYPE = "content_type"
    CONTENT_ENCODING = "content_encoding"
    # statuses
    HTTP_3XX = "http_3xx"
    HTTP_403 = "http_403"
    HTTP_404 = "http_404"
    HTTP_410 = "http_410"
    HTTP_429 = "http_429"
    HTTP_4XX = "http_4xx"  # the others
    HTTP_5XX = "http_5xx"
    REDIRECT_INVALID = "redirect_invalid"
    REDIRECT_LOOP = "redirect_loop"
    REDIRECT_TOO_LONG = "redirect_too_long"
    # deferrals
    ROUND_TIME = "round_time"
    ROUND_BYTES = "round_bytes"
    DISK_FULL = "disk_full"
    SLOT_LOST = "slot_lost"  # no part names it: the task died or never came to it
    LEASE_LOST = "lease_lost"
    RETRY_AFTER = "retry_after"
    BREAKER_OPEN = "breaker_open"
    HOST_SLOW = "host_slow"
    HOST_BLOCKED = "host_blocked"  # a challenge page or a run of 403/429
    HOST_DAY_QUOTA = "host_day_quota"
    HOST_CYCLE_QUOTA = "host_cycle_quota"
    DOMAIN_DAY_QUOTA = "domain_day_quota"
    DOMAIN_CYCLE_QUOTA = "domain_cycle_quota"
    HOST_ROUND_QUOTA = "host_round_quota"
    STOP_LIST = "stop_list"
    # rendering
    RENDER_TIMEOUT = "render_timeout"  # the page did not let go of its process
    RENDER_MEMORY = "render_memory"
    RENDER_CRASH = "render_crash"  # the browser ended
    RENDER_MISSING = "render_missing"  # the machine has no browser
    RENDER_METHOD = "render_method"  # a script's request that is no GET or HEAD
    RENDER_LIMIT = "render_limit"  # requests or bytes of a page
    RENDER_FOREIGN_HOST = "render_foreign_host"  # a host of no slot, or another's, until next time
    # later
    PURGED = "purged"  # what was stored was removed on request; not fetched again
    # records of other tools' WARC files
    RECORD_KIND = "record_kind"  # no answer of a server: a request, metadata, a part of a record
    REVISIT_UNRESOLVED = "revisit_unresolved"  # the copy that it refers to is in no record
    # parse
    PARSE_CRASH = "parse_crash"
    PARSE_TIMEOUT = "parse_timeout"
    CONTENT_TYPE_NOT_PARSED = "content_type_not_parsed"
    BODY_UNDECODABLE = "body_undecodable"
    NOINDEX = "noindex"
    WARC_DAMAGED = "warc_damaged"
    TEXT_EMPTY = "text_empty"


class Refused(ValueError):
    """A value refused by a rule.

    `reason` is from the closed list; the message says what and why.
    """

    exit_code = 2

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail


# what an operator sets so that a refusal of our own does not come again
REMEDIES = {
    Reason.ADDRESS_FORBIDDEN: "fetch.allow_private names private networks that may be asked, for"
    " example --set 'fetch.allow_private=[127.0.0.0/8]'",
    Reason.PORT_FORBIDDEN: "fetch.ports names the ports that may be asked, for example --set"
    " 'fetch.ports=[80,443,8080]'",
    Reason.CONTENT_TYPE: "fetch.content_types names the media types that are stored",
    Reason.ROUND_TIME: "round.minutes is the time of a round's fetch; the next round goes on",
    Reason.HOST_ROUND_QUOTA: "round.urls_per_host is the most of one host in a round; the next goes"
    " on",
    Reason.STOP_LIST: "an operator or a complaint stopped the host: `crawlkit unblock HOST`",
    Reason.RENDER_MISSING: "`make setup-render` gets a Chromium, or render.chromium names one",
    Reason.DISK_FULL: "storage.min_free_bytes is the room that a fetch leaves on the disk",
}
