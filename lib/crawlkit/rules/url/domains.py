"""Registered domains and host buckets: how the crawl is sharded.

The public suffix list is the snapshot inside tldextract: no network, no cache folder.
"""

from __future__ import annotations

import hashlib
import ipaddress
from functools import lru_cache

import tldextract

_extract = {
    private: tldextract.TLDExtract(
        suffix_list_urls=(), cache_dir=None, include_psl_private_domains=private
    )
    for private in (False, True)
}


@lru_cache(maxsize=65_536)
def registered_domain(host: str, private_suffixes: bool = True) -> str:
    """The name that was registered: public suffix plus one label, in lower case.

    An address, a lone label and a public suffix are their own; under an unlisted top level the
    list's default rule `*` holds. With `private_suffixes` the list's private part counts too
    (`b.github.io` is then registered, not `github.io`). `host` is in ASCII or Unicode, without a
    port.
    """
    host = host.lower().rstrip(".")
    if _is_address(host):
        return host
    found = _extract[private_suffixes](host)
    if found.suffix:
        return found.top_domain_under_public_suffix or host
    return ".".join(host.split(".")[-2:])


@lru_cache(maxsize=65_536)
def public_suffix(host: str, private_suffixes: bool = True) -> str | None:
    """The public suffix of a host (the last label where the list has none); None for an address."""
    host = host.lower().rstrip(".")
    if _is_address(host):
        return None
    return _extract[private_suffixes](host).suffix or host.rpartition(".")[2]


def host_bucket(domain: str, buckets: int) -> int:
    """Bucket of a registered domain: the first 8 bytes of its SHA-256, big-endian, mod `buckets` (a
    power of two).

    When `buckets` doubles, bucket b goes to b or to b + buckets.
    """
    return int.from_bytes(hashlib.sha256(domain.encode()).digest()[:8], "big") % buckets


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host[1:-1] if host.startswith("[") else host)
    except ValueError:
        return False
    return True
