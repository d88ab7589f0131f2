"""The gate: what is parsed, what is refused, which address is handed out."""

from __future__ import annotations

import asyncio

import pytest
from crawlkit.adapters.net.address_guard import Guard, parse_place
from crawlkit.adapters.net.dns import Lookup
from crawlkit.config import Fetch
from crawlkit.outcomes import Reason, Refused


class Names:
    """A resolver that knows some names and counts questions."""

    def __init__(self, **names: tuple[str, ...]) -> None:
        self.names = {name.replace("_", "."): ips for name, ips in names.items()}
        self.asked: list[str] = []

    async def resolve(self, name: str) -> Lookup:
        self.asked.append(name)
        if name not in self.names:
            raise Refused(Reason.DNS_NXDOMAIN)
        return Lookup(self.names[name], 60.0)


def admit(url: str, names: Names | None = None, **fetch):
    guard = Guard(Fetch(**fetch), names or Names())
    return asyncio.run(guard.admit(guard.parse(url)))


def refusal(url: str, names: Names | None = None, **fetch) -> Reason:
    with pytest.raises(Refused) as caught:
        admit(url, names, **fetch)
    return caught.value.reason


@pytest.mark.parametrize(
    "url, host, port, host_header, target",
    [
        ("http://Site.Example", "site.example", 80, "site.example", "/"),
        ("https://site.example./a?b#c", "site.example", 443, "site.example", "/a?b"),
        ("http://site.example:8080?q", "site.example", 8080, "site.example:8080", "/?q"),
        ("http://user:p%40w@site.example/@x", "site.example", 80, "site.example", "/@x"),
        ("http://[2606:4700::1]:81/", "2606:4700::1", 81, "[2606:4700::1]:81", "/"),
        (
            "http://bücher.example/ä",
            "xn--bcher-kva.example",
            80,
            "xn--bcher-kva.example",
            "/%C3%A4",
        ),
    ],
)
def test_places(url, host, port, host_header, target):
    place = parse_place(url)
    assert (place.host, place.port, place.host_header, place.target) == (
        host,
        port,
        host_header,
        target,
    )
    assert "@" not in place.url.partition("/@")[0] and "#" not in place.url


@pytest.mark.parametrize(
    "url, reason",
    [
        ("ftp://site.example/", Reason.URL_SCHEME),
        ("file:///etc/passwd", Reason.URL_SCHEME),
        ("gopher://127.0.0.1:25/", Reason.URL_SCHEME),
        ("javascript:alert(1)", Reason.URL_SCHEME),
        ("http://", Reason.URL_INVALID),
        ("nonsense", Reason.URL_INVALID),
        ("http://site.example:99999/", Reason.URL_INVALID),
        ("http://..../", Reason.URL_HOST_EMPTY),
        ("http://site.example:22/", Reason.PORT_FORBIDDEN),
        ("http://site.example:6379/", Reason.PORT_FORBIDDEN),
        ("http://site.example:0/", Reason.PORT_FORBIDDEN),  # a port, not the default
        ("http://missing.example/", Reason.DNS_NXDOMAIN),
        ("http://2130706433/", Reason.ADDRESS_FORBIDDEN),
    ],
)
def test_refusals(url, reason):
    assert refusal(url, Names(site_example=("93.184.216.34",))) == reason


def test_no_credentials_in_a_refusal():
    with pytest.raises(Refused) as caught:
        parse_place("http://user:secret@exa mple/")
    assert "secret" not in str(caught.value)


def test_one_forbidden_address_among_many_is_enough():
    ips = (*(f"93.184.216.{n}" for n in range(1, 40)), "10.0.0.1")
    assert refusal("http://site.example/", Names(site_example=ips)) == Reason.ADDRESS_FORBIDDEN


def test_the_checked_addresses_are_handed_out_ipv4_first():
    names = Names(site_example=("2606:4700::1", "93.184.216.34"))
    admitted = admit("http://site.example/", names)
    assert (admitted.addresses, admitted.port, names.asked) == (
        ("93.184.216.34", "2606:4700::1"),
        80,
        ["site.example"],
    )


def test_connect_to_replaces_the_lookup_but_not_the_check():
    names, to = (
        Names(),
        {"a.example": "127.0.0.1:8001", "*.b.example": "127.0.0.1:8002", "c.example": "[::1]:8003"},
    )
    allowed = {"connect_to": to, "allow_private": ("127.0.0.0/8", "::1/128")}
    assert admit("http://a.example/", names, **allowed).port == 8001
    assert admit("https://x.y.b.example/", names, **allowed).port == 8002
    assert admit("http://c.example/", names, **allowed).addresses == ("::1",)
    assert names.asked == []
    assert refusal("http://b.example/", names, **allowed) == Reason.DNS_NXDOMAIN
    assert refusal("http://a.example/", names, connect_to=to) == Reason.ADDRESS_FORBIDDEN
    assert refusal("http://a.example:8001/", names, **allowed) == Reason.PORT_FORBIDDEN


def test_deny_comes_first():
    assert (
        refusal("http://93.184.216.34/", deny=("93.184.216.0/24",), allow_private=("0.0.0.0/0",))
        == Reason.ADDRESS_FORBIDDEN
    )
