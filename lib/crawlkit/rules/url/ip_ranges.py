"""Which addresses may be connected to: our copy of the IANA special-purpose registries.

Sources: IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890 and its updates), IPv6
address space registry (only 2000::/3 is global unicast), multicast (RFC 5771, RFC 4291 2.7), and
the clouds' own metadata and platform addresses. Blocks that the registries call globally reachable
are allowed, except where no web server can live (protocol anycast). Documentation and benchmark
blocks are refused like private ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_V4 = [
    (ip_network(net), why)
    for net, why in (
        ("0.0.0.0/8", "this network (RFC 791)"),
        ("10.0.0.0/8", "private (RFC 1918)"),
        ("100.64.0.0/10", "shared address space (RFC 6598)"),
        ("127.0.0.0/8", "loopback (RFC 1122)"),
        ("168.63.129.16/32", "cloud platform address"),
        ("169.254.0.0/16", "link-local, cloud metadata (RFC 3927)"),
        ("172.16.0.0/12", "private (RFC 1918)"),
        ("192.0.0.0/24", "IETF protocol assignments (RFC 6890)"),
        ("192.0.2.0/24", "documentation (RFC 5737)"),
        ("192.88.99.0/24", "6to4 relay anycast (RFC 7526)"),
        ("192.168.0.0/16", "private (RFC 1918)"),
        ("198.18.0.0/15", "benchmarking (RFC 2544)"),
        ("198.51.100.0/24", "documentation (RFC 5737)"),
        ("203.0.113.0/24", "documentation (RFC 5737)"),
        ("224.0.0.0/4", "multicast (RFC 5771)"),
        ("240.0.0.0/4", "reserved (RFC 1112)"),
    )
]
_V6 = [
    (ip_network(net), why)
    for net, why in (
        ("::/128", "unspecified (RFC 4291)"),
        ("::1/128", "loopback (RFC 4291)"),
        ("::/96", "IPv4-compatible, deprecated (RFC 4291)"),
        ("64:ff9b:1::/48", "local-use NAT64 (RFC 8215)"),
        ("100::/64", "discard-only (RFC 6666)"),
        ("100:0:0:1::/64", "dummy prefix (RFC 9780)"),
        ("2001::/32", "Teredo (RFC 4380)"),
        ("2001::/23", "IETF protocol assignments (RFC 2928)"),
        ("2001:db8::/32", "documentation (RFC 3849)"),
        ("3fff::/20", "documentation (RFC 9637)"),
        ("5f00::/16", "segment routing (RFC 9602)"),
        ("fc00::/7", "unique-local, cloud metadata (RFC 4193)"),
        ("fe80::/10", "link-local (RFC 4291)"),
        ("fec0::/10", "site-local, deprecated (RFC 3879)"),
        ("ff00::/8", "multicast (RFC 4291)"),
    )
]
# Globally reachable by the registry although inside 2001::/23: AS112 (RFC 7535), ORCHIDv2 and drone
# tags stay refused.
_V6_REACHABLE = (ip_network("2001:4:112::/48"),)
_GLOBAL_UNICAST = ip_network("2000::/3")
_NAT64 = ip_network("64:ff9b::/96")


def embedded_ipv4(ip: IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside a mapped (RFC 4291 2.5.5.2), compatible (2.5.5.1), NAT64 (RFC 6052),
    6to4 (RFC 3056) or Teredo (RFC 4380 4) address; None for others.
    """
    if ip.ipv4_mapped:
        return ip.ipv4_mapped
    if ip.sixtofour:
        return ip.sixtofour
    if ip.teredo:
        return ip.teredo[1]
    low = IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip in _NAT64 or (int(ip) >> 32 == 0 and int(ip) > 0xFFFF):
        return low
    return None


def _table_refusal(ip: Address) -> str | None:
    if isinstance(ip, IPv4Address):
        return next((why for net, why in _V4 if ip in net), None)
    inner = embedded_ipv4(ip)
    if inner is not None and (why := _table_refusal(inner)):
        return f"{inner} inside {ip}: {why}"
    if ip.ipv4_mapped or ip in _NAT64 or any(ip in net for net in _V6_REACHABLE):
        return None
    why = next((why for net, why in _V6 if ip in net), None)
    if why is None and ip not in _GLOBAL_UNICAST:
        return "outside global unicast (RFC 4291)"
    return why


def address_refusal(
    ip: str | Address, allow: Sequence[Network] = (), deny: Sequence[Network] = ()
) -> str | None:
    """Why this address may not be connected to, or None if it may.

    `deny` comes before `allow`, `allow` before the table; both also match the IPv4 address embedded
    in an IPv6 one. Text that is no address (a zone index included) is refused.
    """
    try:
        ip = ip_address(ip) if isinstance(ip, str) else ip
    except ValueError:
        return "not an IP address"
    if isinstance(ip, IPv6Address) and ip.scope_id:
        return "scoped address (RFC 4007)"
    inner = embedded_ipv4(ip) if isinstance(ip, IPv6Address) else None
    forms = (ip,) if inner is None else (ip, inner)
    if any(form in net for net in deny for form in forms):
        return "denied by configuration"
    if any(form in net for net in allow for form in forms):
        return None
    return _table_refusal(ip)
