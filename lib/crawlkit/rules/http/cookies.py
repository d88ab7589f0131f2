"""Cookies as pure values (RFC 6265): what a Set-Cookie line adds, and the Cookie header of a
request.

A jar is a tuple of cookies, oldest first. Off by default; the engine keeps one jar a registered
domain for the hosts that the operator named. Ports do not isolate (8.5), public suffixes never get
a cookie (5.3 step 5), and of RFC 6265bis: a Secure cookie from http is refused, and so is one from
http that would replace or shadow a Secure one; the name prefixes are honoured in any case;
attributes over 1,024 characters are ignored; no lifetime is longer than 400 days.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_address

from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import canonicalize, host_of
from crawlkit.rules.url.domains import registered_domain

MAX_COOKIES = 50
MAX_COOKIE_CHARS = 4096
MAX_ATTRIBUTE_CHARS = 1024
MAX_LIFETIME_S = 400 * 86_400.0
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)", re.ASCII)
_DAY = re.compile(r"(\d{1,2})(?!\d)", re.ASCII)
_YEAR = re.compile(r"(\d{2,4})(?!\d)", re.ASCII)
_MAX_AGE = re.compile(r"-?[0-9]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DELIMITER = re.compile(r"[\x09\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True, slots=True)
class Cookie:
    """A stored cookie (RFC 6265 5.3). `expires`: Unix s, None for a session cookie."""

    name: str
    value: str
    domain: str
    path: str
    host_only: bool
    secure: bool
    expires: float | None


def receive(
    jar: tuple[Cookie, ...], host: str, path: str, secure: bool, lines: Iterable[str], now: float
) -> tuple[Cookie, ...]:
    """The jar after the Set-Cookie values of one answer from `host` (lower case) for `path`;
    `secure`: it came by https.
    """
    for line in lines:
        cookie = parse_set_cookie(line, host, path, secure, now)
        if cookie is None or (not secure and any(_guards(c, cookie, now) for c in jar)):
            continue
        key = (cookie.name, cookie.domain, cookie.path)
        at = next((n for n, c in enumerate(jar) if (c.name, c.domain, c.path) == key), None)
        alive = cookie.expires is None or cookie.expires > now
        if at is not None:  # keeps its place: its creation time (5.3 step 11)
            jar = (*jar[:at], *([cookie] if alive else []), *jar[at + 1 :])
        elif alive:
            jar = (*jar, cookie)[-MAX_COOKIES:]
    return jar


def cookie_header(
    jar: tuple[Cookie, ...], host: str, path: str, secure: bool, now: float
) -> str | None:
    """The Cookie header of a request (5.4), None if no cookie fits: longer paths first, then older
    ones.
    """
    path = path.partition("?")[0]
    fit = [
        c
        for c in jar
        if (c.host_only and c.domain == host or not c.host_only and domain_match(host, c.domain))
        and path_match(path, c.path)
        and (secure or not c.secure)
        and (c.expires is None or c.expires > now)
    ]
    return "; ".join(f"{c.name}={c.value}" for c in sorted(fit, key=lambda c: -len(c.path))) or None


def parse_set_cookie(line: str, host: str, path: str, secure: bool, now: float) -> Cookie | None:
    """The cookie of a Set-Cookie value (5.2, 5.3), None if it is to be ignored."""
    pair, _, rest = line.partition(";")
    name, equals, value = (p.strip(" \t") for p in pair.partition("="))
    if not equals or not name or len(name) + len(value) > MAX_COOKIE_CHARS or _CONTROL.search(line):
        return None
    cookie = Cookie(name, value, host, default_path(path), True, False, None)
    max_age: float | None = None
    domain, has_path = "", False
    for part in rest.split(";") if rest else ():
        key, _, text = (p.strip(" \t") for p in part.partition("="))
        if len(text) > MAX_ATTRIBUTE_CHARS:
            continue
        match key.lower():
            case "expires":
                expires = cookie_date(text)
                cookie = cookie if expires is None else replace(cookie, expires=expires)
            case "max-age" if _MAX_AGE.fullmatch(text):
                max_age = float(text)  # of any length: float of 4,096 digits is infinite
            case "domain" if text.strip("."):
                domain = _ascii_domain(text.removeprefix("."))
            case "path":
                has_path = True
                cookie = replace(cookie, path=text if text.startswith("/") else default_path(path))
            case "secure":
                cookie = replace(cookie, secure=True)
    if max_age is not None:
        cookie = replace(cookie, expires=now + max_age if max_age > 0 else 0.0)
    if cookie.expires is not None:
        cookie = replace(cookie, expires=min(cookie.expires, now + MAX_LIFETIME_S))
    return _with_domain(cookie, domain, has_path, secure)


def _with_domain(cookie: Cookie, domain: str, has_path: bool, secure: bool) -> Cookie | None:
    """The cookie for its Domain attribute ("": none); None if the host may not set it (5.3)."""
    host, prefix = cookie.domain, cookie.name[:9].lower()
    if domain and is_public_suffix(domain):
        if domain != host:
            return None
        domain = ""
    if domain:
        if not domain_match(host, domain):
            return None
        cookie = replace(cookie, domain=domain, host_only=False)
    is_host_bound = cookie.secure and cookie.host_only and has_path and cookie.path == "/"
    is_forbidden = (
        (cookie.secure and not secure)
        or (prefix == "__secure-" and not cookie.secure)
        or (prefix.startswith("__host-") and not is_host_bound)
    )
    return None if is_forbidden else cookie


def _guards(kept: Cookie, new: Cookie, now: float) -> bool:
    """Must `new`, which came by http, leave `kept` alone (6265bis 5.7)?"""
    alive = kept.expires is None or kept.expires > now
    return (
        kept.secure
        and alive
        and kept.name == new.name
        and (domain_match(new.domain, kept.domain) or domain_match(kept.domain, new.domain))
        and path_match(new.path, kept.path)
    )


def _ascii_domain(text: str) -> str:
    """5.1.2: a domain in the form that hosts have here; header values are read as Latin-1, names
    are sent in UTF-8. What is no domain stays, and matches no host.
    """
    if text.isascii():
        return text.lower()
    with contextlib.suppress(UnicodeError):
        text = text.encode("latin-1").decode()
    try:
        return host_of(canonicalize(f"http://{text}/"))
    except Refused:
        return text.lower()


def is_public_suffix(domain: str) -> bool:
    """Can names be registered directly below it?"""
    return registered_domain(f"x.{domain}") == f"x.{domain}"


def domain_match(host: str, domain: str) -> bool:
    """5.1.3."""
    return host == domain or (host.endswith("." + domain) and not _is_address(host))


def path_match(path: str, cookie_path: str) -> bool:
    """5.1.4."""
    return path == cookie_path or (
        path.startswith(cookie_path)
        and (cookie_path.endswith("/") or path[len(cookie_path)] == "/")
    )


def default_path(path: str) -> str:
    """5.1.4: up to the last slash of the request's path."""
    path = path.partition("?")[0]
    return path[: path.rfind("/")] or "/" if path.startswith("/") else "/"


def cookie_date(text: str) -> float | None:
    """Unix seconds of an Expires value (5.1.1, the lenient algorithm), None if it is no date."""
    time: tuple[int, ...] = ()
    day = month = year = None
    for token in _DELIMITER.split(text[:256]):
        if not time and (found := _TIME.match(token)):
            time = tuple(map(int, found.groups()))
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
    if not time or day is None or month is None or year is None:
        return None
    year += 1900 if 70 <= year <= 99 else 2000 if year <= 69 else 0
    if year < 1601:
        return None
    hour, minute, second = time
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
