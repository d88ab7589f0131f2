"""Signs that a host or its CDN does not want us: recognised, reported, never evaded."""

from __future__ import annotations

from collections.abc import Iterable

_HEAD_BYTES = 32_768

# Header fields that say so themselves: (name, part of the value, product).
_HEADER_MARKS = (
    ("cf-mitigated", "challenge", "cloudflare"),
    ("x-vercel-mitigated", "challenge", "vercel"),
    ("x-amzn-waf-action", "challenge", "aws-waf"),
    ("x-amzn-waf-action", "captcha", "aws-waf"),
)

# Marks of a challenge page's body. Ordinary pages carry some of them too (scripts that a CDN
# injects), so they count only beside a refusing status.
_BODY_MARKS = (
    (b"/cdn-cgi/challenge-platform/", "cloudflare"),
    (b"cf-browser-verification", "cloudflare"),
    (b"cf_chl_opt", "cloudflare"),
    (b"captcha-delivery.com", "datadome"),
    (b"_incapsula_resource", "imperva"),
    (b"px-captcha", "perimeterx"),
    (b"sucuri_cloudproxy_js", "sucuri"),
    (b"/.well-known/ddos-guard/", "ddos-guard"),
    (b"/vdesk/hangup.php3", "f5"),
    (b"errors.edgesuite.net", "akamai"),
    (b"/.within.website/x/cmd/anubis/", "anubis"),
    (b"awswafcookiedomainlist", "aws-waf"),
)
_REFUSING = frozenset({401, 403, 405, 406, 429, 503})


def challenge_of(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> str | None:
    """Product whose challenge or block page this answer is, or None.

    `headers` as received; of `body` (content coding removed) the first 32 KiB are looked at.
    """
    for name, value in headers:
        low = name.lower()
        for mark, part, product in _HEADER_MARKS:
            if low == mark and part in value.lower():
                return product
    if status not in _REFUSING:
        return None
    head = body[:_HEAD_BYTES].lower()
    return next((product for mark, product in _BODY_MARKS if mark in head), None)


def counts_as_denial(status: int | None) -> bool:
    """403 and 429: a run of them, unbroken by another answer, marks the host as blocked."""
    return status in (403, 429)
