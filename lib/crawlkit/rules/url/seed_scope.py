"""The scope that seeds stand for, where nothing else says what is to be crawled."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.domains import registered_domain

KINDS = {"host": "hosts", "domain": "domains", "prefix": "prefixes"}  # kind -> key of the scope
MAX_NAMES = 1000  # a longer list is no scope that a person reads


def scope_of_seeds(urls: Iterable[str], kind: str) -> list[str]:
    """The values of `scope.KINDS[kind]` that canonical URLs stand for, in their order.

    host: their host names; domain: their registered domains; prefix: each up to the last slash of
    its path.
    """
    return list(dict.fromkeys(_of_url(url, kind) for url in urls))


def _of_url(url: str, kind: str) -> str:
    if kind == "prefix":
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}{parts.path[: parts.path.rindex('/') + 1]}"
    host = host_of(url)
    return host if kind == "host" else registered_domain(host)
