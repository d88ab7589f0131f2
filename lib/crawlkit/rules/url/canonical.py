"""Canonical URLs: the one spelling under which a URL is known (docs/rules/urls.md).

Parsing is the WHATWG URL Standard's (by ada). On top of it the canonical form: credentials,
fragment, default port and final dots of the host removed; escapes made uniform (RFC 3986 6.2.2:
unreserved characters decoded, others in upper case, a `%` that starts no escape written `%25`);
session and tracking parameters removed; parameters sorted by name. The result is a fixed point:
canonicalize(canonicalize(u)) == canonicalize(u).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ada_url import URL

from crawlkit.outcomes import Reason, Refused
from crawlkit.rules.url.policy import DEFAULT_POLICY, SESSION_PARAMS, TRACKING_PARAMS, UrlPolicy
from crawlkit.rules.url.session_values import is_session_value

__all__ = [
    "DEFAULT_POLICY",
    "SESSION_PARAMS",
    "TRACKING_PARAMS",
    "Parts",
    "UrlPolicy",
    "as_found",
    "as_sent",
    "canonical_many",
    "canonicalize",
    "host_of",
    "host_sql",
    "origin_of",
    "split",
    "text_of",
    "url_key",
]

# of the input and of the result; crawl scope sets a lower limit (scope.max_url_bytes)
MAX_URL_CHARS = 65_536
DEFAULT_PORTS = {"http": 80, "https": 443}

# Shapes that need no parser: no control, space or backslash, scheme in lower case, no credentials,
# no brackets. Their host is read by the standard's host parser (once, cached), the rest is escaped
# by `_uniform` below.
_ABSOLUTE = re.compile(
    r"(https?)://([^\x00-\x20\"#%/:<>?@\[\\\]^`{|}\x7f]{1,255})(?::([0-9]{0,5}"
    r"))?(/[^\x00-\x20?#\\]*)?(?:\?([^\x00-\x20#]*))?"
)
_REFERENCE = re.compile(
    r"(/(?!/)[^\x00-\x20?#\\]*|[^\x00-\x20?#\\/:]+(?:/[^\x00-\x20?#\\]*)?|)(?:\?([^\x00-\x20#]*))?"
)
# What differs from its uniform spelling: escapes, and the path and query percent-encode sets
# (WHATWG URL 1.3).
_UNIFORM_PATH = re.compile(r"[A-Za-z0-9/._~!$&'()*+,;:@=|\[\]-]*")
_UNIFORM_QUERY = re.compile(r"[A-Za-z0-9/._~!$&()*+,;:@=?|\[\]-]*")
_UNIFORM_BASE = re.compile(
    r"https?://[^/:?#]+(?::[0-9]{1,5})?(?:/(?!\.)[\w~!$&'()*+,;:@=|\[\].-]*)+(?:\?[\w/.~-]*)?",
    re.ASCII,
)
_PATH_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[\x00-\x20\"#<>?^`{}\x7f]|[^\x00-\x7f]+")
_QUERY_CHANGES = re.compile(r"%(?:[0-9A-Fa-f]{2})?|[\x00-\x20\"#<>'\x7f]|[^\x00-\x7f]+")
_ESCAPES = re.compile(r"%(?:[0-9A-Fa-f]{2})?")
_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_UNIFORM = {chr(n): f"%{n:02X}" for n in range(128)} | {
    f"%{a}{b}": chr(int(a + b, 16)) if chr(int(a + b, 16)) in _UNRESERVED else f"%{a}{b}".upper()
    for a in "0123456789ABCDEFabcdef"
    for b in "0123456789ABCDEFabcdef"
}
_OPAQUE = re.compile(
    r"(?!(?i:https?|wss?|ftp|file):)[A-Za-z][A-Za-z0-9+.-]*:(?!/)"
)  # javascript:, mailto:, tel: and the like, of which no parse fails
_DOT_SEGMENT = re.compile(r"/\.\.?(?:/|\Z)")
_PATH_SESSION = re.compile(r";jsessionid=[^/;]*", re.IGNORECASE)
_SPELLED = re.compile("[%&]")  # without one, a canonical URL has no other spelling of its own
_CREDENTIALS = re.compile(r"//[^/?#]*@")
_NO_HOST = re.compile(r"[\x00-\x20]*https?:[/\\]*(?:[?#]|\Z)", re.IGNORECASE)
_INDEX_PAGES = frozenset(
    f"{stem}.{end}"
    for stem in ("index", "default")
    for end in ("htm", "html", "php", "asp", "aspx", "jsp")
)


class Parts(NamedTuple):
    """Parts of a canonical URL.

    `host` keeps the brackets of an IPv6 address; `port` is explicit or the default.
    """

    scheme: str
    host: str
    port: int
    path_query: str


def host_sql(url: str) -> str:
    """`host_of` of a canonical URL as SQL. url: the name of its column."""
    return f"regexp_replace(split_part({url}, '/', 3), ':[0-9]*$', '')"


def canonicalize(
    url: str | bytes, base: str | None = None, policy: UrlPolicy = DEFAULT_POLICY
) -> str:
    """Canonical form of an absolute URL, or of a reference resolved against `base` (WHATWG URL,
    4.4).

    Bytes are UTF-8; if they are not, each byte above 0x7F becomes its escape. Raises Refused:
    URL_INVALID (parse failure), URL_SCHEME (neither http nor https), URL_HOST_EMPTY, URL_TOO_LONG
    (over MAX_URL_CHARS).
    """
    if isinstance(url, bytes):
        url = text_of(url)
    if len(url) > MAX_URL_CHARS:
        raise Refused(Reason.URL_TOO_LONG, f"{len(url)} characters: {_shown(url)}")
    # Only the head is looked at: a space before "#" is data, so only the whole text may go to the
    # parser.
    head = url if policy.route_fragment_hosts else url.partition("#")[0]
    fragment = ""
    if match := _ABSOLUTE.fullmatch(head):
        scheme, host, port, path, query = match.groups()
        origin = f"{scheme}://{_host(host)}"
        if port:
            origin += _port_suffix(scheme, port)
    elif base is not None and (match := _REFERENCE.fullmatch(head)) and (parts := _base(base)):
        origin, path, query = parts
        if head:
            reference, query = match.groups()
            if reference:
                path = (
                    reference if reference[0] == "/" else path[: path.rindex("/") + 1] + reference
                )
    elif _OPAQUE.match(url):
        raise Refused(Reason.URL_SCHEME, _shown(url))
    else:
        origin, path, query, fragment = _parse(url, base, policy)
    out = _finish(origin, path or "/", query, fragment, policy)
    if len(out) > MAX_URL_CHARS:
        raise Refused(Reason.URL_TOO_LONG, f"{len(out)} characters: {_shown(out)}")
    return out


def as_sent(url: str | bytes, base: str | None = None) -> str:
    """A URL, or a reference against `base`, as a browser requests it (WHATWG URL 4.5, without
    credentials and fragment).

    Nothing is removed and parameters keep their order, as robots.txt may speak of them. Raises as
    `canonicalize`.
    """
    text = text_of(url) if isinstance(url, bytes) else url
    canonicalize(text, base)
    parsed = _standard_parse(text, base)
    parsed.username = parsed.password = parsed.hash = ""
    return parsed.href


def as_found(
    url: str | bytes, canonical: str, base: str | None = None, policy: UrlPolicy = DEFAULT_POLICY
) -> str | None:
    """How a URL, or a reference against `base`, is requested: its escapes and the order of its
    parameters as they were found, for a server may read them in one spelling alone. What the policy
    removes is not sent. None: in its canonical form.

    canonical: what `canonicalize` made of it, and makes of the result.
    """
    folds = policy.fold_index or policy.fold_slash
    text = text_of(url) if isinstance(url, bytes) else url
    if not folds and not _SPELLED.search(text):
        return None
    try:
        parsed = _standard_parse(text, base)
        path, query = parsed.pathname, parsed.search[1:]
        if policy.remove_session and ";" in path:
            path = _PATH_SESSION.sub("", path)
        if query:
            kept = {*canonical.partition("?")[2].split("&")}
            query = "&".join(p for p in query.split("&") if _uniform_query(p) in kept)
        found = origin_of(canonical) + path + (f"?{query}" if query else "")
        is_same = found != canonical and canonicalize(found, None, policy) == canonical
    except Refused:
        return None
    return found if is_same else None


def canonical_many(
    hrefs: Iterable[str | bytes], base: str | None = None, policy: UrlPolicy = DEFAULT_POLICY
) -> list[str | Refused]:
    """`canonicalize` for each reference of one document; a refusal takes its place."""
    out: list[str | Refused] = []
    for href in hrefs:
        try:
            out.append(canonicalize(href, base, policy))
        except Refused as refused:
            out.append(refused)
    return out


def split(canonical: str) -> Parts:
    """Scheme, host, port and path with query of a canonical URL."""
    scheme, _, rest = canonical.partition("://")
    authority, slash, tail = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, ""
    return Parts(scheme, host, int(port) if port else DEFAULT_PORTS[scheme], slash + tail)


def host_of(canonical: str) -> str:
    """Host of a canonical URL, without the port: the unit of politeness."""
    authority = canonical.split("/", 3)[2]
    return authority if ":" not in authority else split(canonical).host


def origin_of(canonical: str) -> str:
    """`scheme://host[:port]` of a canonical URL, without a default port (RFC 6454): the unit of
    robots.txt.
    """
    return canonical[: canonical.index("/", 8)]


def url_key(canonical: str) -> bytes:
    """Key of a canonical URL: the first 16 bytes of its SHA-256."""
    return hashlib.sha256(canonical.encode("ascii")).digest()[:16]


def _shown(url: str) -> str:
    """The start of a URL for messages, without credentials."""
    return repr(_CREDENTIALS.sub("//", url)[:200])


def text_of(raw: bytes) -> str:
    """Text of bytes that hold a URL: UTF-8; if they are not, each byte above 0x7F is its escape."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(chr(b) if b < 0x80 else f"%{b:02X}" for b in raw)


def _scalar(text: str) -> str:
    """A string without lone surrogates (WHATWG Infra: a scalar value string)."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _standard_parse(url: str, base: str | None = None) -> URL:
    try:
        return URL(url, base)
    except UnicodeEncodeError:
        return _standard_parse(_scalar(url), base and _scalar(base))
    except ValueError:
        if base is not None:
            return _standard_parse(url)  # a base that is no URL does not spoil an absolute one
        reason = Reason.URL_HOST_EMPTY if _NO_HOST.match(url) else Reason.URL_INVALID
        raise Refused(reason, _shown(url)) from None


@lru_cache(maxsize=65_536)
def _host(text: str) -> str:
    """A host as the standard's host parser writes it, final dots removed (at most 255 characters
    come here).
    """
    host = _standard_parse(f"http://{text}/").hostname
    while host.endswith("."):
        host = host.rstrip(".")
        if not host:
            raise Refused(Reason.URL_HOST_EMPTY, repr(text))
        host = _standard_parse(f"http://{host}/").hostname  # "0x7f.1.." has become an address
    return host


def _port_suffix(scheme: str, digits: str) -> str:
    port = int(digits)
    if port > 65_535:
        raise Refused(Reason.URL_INVALID, f"port {digits}")
    return "" if port == DEFAULT_PORTS[scheme] else f":{port}"


@lru_cache(maxsize=64)
def _base(base: str) -> tuple[str, str, str] | None:
    """(origin, path, query) of a base that references can be appended to; None: let the parser find
    the fault.
    """
    match = _ABSOLUTE.fullmatch(base)
    try:
        if match and _UNIFORM_BASE.fullmatch(base):  # as the parser would leave it
            scheme, host, port, path, query = match.groups()
            suffix = _port_suffix(scheme, port) if port else ""
            return f"{scheme}://{_host(host)}{suffix}", path, query or ""
        return _parse(base, None, UrlPolicy())[:3]
    except Refused:
        return None


def _parse(url: str, base: str | None, policy: UrlPolicy) -> tuple[str, str, str, str]:
    """(origin, path, query, kept fragment) by the standard's parser."""
    parsed = _standard_parse(url, base)
    scheme = parsed.protocol
    if scheme not in ("http:", "https:"):
        raise Refused(Reason.URL_SCHEME, _shown(url))
    host = parsed.hostname
    if host.endswith("."):
        host = _host(host)
    port = parsed.port
    fragment = parsed.hash
    keep = fragment[1:2] in ("/", "!") and host in policy.route_fragment_hosts
    return (
        f"{scheme}//{host}:{port}" if port else f"{scheme}//{host}",
        parsed.pathname,
        parsed.search[1:],
        fragment if keep else "",
    )


def _uniform(match: re.Match[str]) -> str:
    text = match[0]
    return _UNIFORM.get(text) or "".join([f"%{b:02X}" for b in _scalar(text).encode()])


def _without_dot_segments(path: str) -> str:
    """WHATWG URL 4.4, path state, for a path whose escaped dots are decoded."""
    if not _DOT_SEGMENT.search(path):
        return path
    out: list[str] = []
    segments = path[1:].split("/")
    for segment in segments:
        if segment == "..":
            del out[-1:]
        elif segment != ".":
            out.append(segment)
    if segments[-1] in (".", ".."):
        out.append("")
    return "/" + "/".join(out)


def _fold(path: str, policy: UrlPolicy) -> str:
    segments = path.split("/")
    while len(segments) > 2 or segments[1]:
        if policy.fold_index and segments[-1].lower() in _INDEX_PAGES:
            segments[-1] = ""
        elif policy.fold_slash and not segments[-1]:
            segments.pop()
        else:
            break
    return "/".join(segments)


def _finish(origin: str, path: str, query: str | None, fragment: str, policy: UrlPolicy) -> str:
    """The canonical form from parts as the standard's parser leaves them."""
    if not _UNIFORM_PATH.fullmatch(path):
        path = _PATH_CHANGES.sub(_uniform, path)
    if "/." in path:
        path = _without_dot_segments(path)
    if policy.remove_session and ";" in path:
        path = _without_dot_segments(_PATH_SESSION.sub("", path))
    if policy.fold_www:
        while "://www." in origin and origin.count(".") > 1:
            origin = origin.replace("://www.", "://")
    if policy.fold_index or policy.fold_slash:
        path = _fold(path, policy)
    if query:
        query = _query(query, origin, policy)
    if fragment:
        fragment = _ESCAPES.sub(
            _uniform, fragment
        )  # its other characters are as the parser writes them
    return f"{origin}{path}?{query}{fragment}" if query else origin + path + fragment


def _query(query: str, origin: str, policy: UrlPolicy) -> str:
    query = _uniform_query(query)
    names, prefixes = policy.param_names, policy.param_prefixes
    if policy.host_params:
        names = names | policy.host_params.get(
            origin.partition("://")[2].partition(":")[0], frozenset()
        )
    kept = []
    for piece in query.split("&"):
        if piece:
            name = piece.partition("=")[0]
            low = name.lower()
            if low in names or low.startswith(prefixes):
                continue
            if low not in policy.value_params or not is_session_value(piece[len(name) + 1 :]):
                kept.append((name, piece))
    if len(kept) > 1:
        kept.sort(key=_first)
        if policy.collapse_repeats:
            return "&".join(dict.fromkeys(piece for _, piece in kept))
    return "&".join([piece for _, piece in kept])


def _uniform_query(query: str) -> str:
    return query if _UNIFORM_QUERY.fullmatch(query) else _QUERY_CHANGES.sub(_uniform, query)


def _first(pair: tuple[str, str]) -> str:
    return pair[0]
