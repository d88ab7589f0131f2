"""Right values: IANA special-purpose address registries (RFC 6890), RFC 4291, RFC 6052, RFC 3056,
RFC 4380.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from crawlkit.rules.url.ip_ranges import address_refusal, embedded_ipv4
from hypothesis import given, strategies as st

# first and last address of each refused block, and their neighbours outside
EDGES = [
    ("0.0.0.0", "0.255.255.255", None, "1.0.0.0"),
    ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
    ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
    ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
    ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
    ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
    ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
    ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
    ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
    ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
    ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
    ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
    ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
    ("224.0.0.0", "255.255.255.255", "223.255.255.255", None),
    (
        "2001::",
        "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "2001:200::",
    ),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff::", "2001:db9::"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff::", "3fff:1000::"),
]


@pytest.mark.parametrize("first, last, before, after", EDGES)
def test_edges_of_the_blocks(first, last, before, after):
    assert address_refusal(first) and address_refusal(last)
    assert not (before and address_refusal(before)), address_refusal(before)
    assert not (after and address_refusal(after)), address_refusal(after)


@pytest.mark.parametrize(
    "ip",
    [
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "fc00::1",
        "fdff::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "ff02::1",
        "100::1",
        "100:0:0:1::1",
        "5f00::1",
        "64:ff9b:1::1",
        "4000::1",
        "::5db8:d822",
        "192.0.0.192",
        "100.100.100.200",
        "169.254.169.254",
        "192.88.99.1",
        "2001:20::1",
        "2001:1::1",
        "fe80::1%eth0",
        "93.184.216.34%1",
        "",
        "localhost",
        "127.1",
        "0x7f000001",
    ],
)
def test_refused(ip):
    assert address_refusal(ip)


@pytest.mark.parametrize(
    "ip",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "192.31.196.1",
        "192.175.48.1",
        "2606:4700::1",
        "2a00:1450:4001::1",
        "2001:4860:4860::8888",
        "2001:4:112::1",
        "2620:4f:8000::1",
    ],
)
def test_public(ip):
    assert address_refusal(ip) is None


@pytest.mark.parametrize("form", ["::ffff:{}", "64:ff9b::{}", "2002:{hex}::1"])
@pytest.mark.parametrize(
    "inner, refused",
    [("127.0.0.1", True), ("10.1.2.3", True), ("169.254.169.254", True), ("93.184.216.34", False)],
)
def test_embedded_ipv4_is_unwrapped(form, inner, refused):
    number = int(IPv4Address(inner))
    ip = form.format(inner, hex=f"{number >> 16:x}:{number & 0xFFFF:x}")
    assert embedded_ipv4(IPv6Address(ip)) == IPv4Address(inner)
    assert bool(address_refusal(ip)) is refused


def test_teredo_and_compatible_are_refused_whatever_they_hold():
    # RFC 4380 4: the client's address is stored inverted
    assert embedded_ipv4(IPv6Address("2001:0:4136:e378:8000:63bf:3fff:fdd2")) == IPv4Address(
        "192.0.2.45"
    )
    assert address_refusal("2001:0:4136:e378:8000:63bf:a247:27dd")  # 93.184.216.34
    assert embedded_ipv4(IPv6Address("::7f00:1")) == IPv4Address("127.0.0.1")


def test_deny_before_allow_before_the_table():
    allow, deny = (
        [ip_network("10.1.2.0/24")],
        [ip_network("10.1.2.3/32"), ip_network("93.184.216.0/24")],
    )
    assert address_refusal("10.1.2.4", allow, deny) is None
    assert address_refusal("10.1.3.4", allow, deny)
    assert address_refusal("10.1.2.3", allow, deny) == "denied by configuration"
    assert address_refusal("93.184.216.34", allow, deny)
    assert address_refusal("::ffff:10.1.2.4", allow, deny) is None
    assert address_refusal("::ffff:10.1.2.3", [ip_network("::/0")], deny)


@given(st.integers(0, 2**32 - 1))
def test_mapped_form_has_the_verdict_of_the_address(number):
    ip = IPv4Address(number)
    assert (
        bool(address_refusal(ip))
        == bool(address_refusal(f"::ffff:{ip}"))
        == bool(address_refusal(f"64:ff9b::{ip}"))
    )


@given(st.text(max_size=40))
def test_no_text_raises(text):
    address_refusal(text)
