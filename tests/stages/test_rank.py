"""rank counts the hosts that link to a page, those that are IPv6 addresses too."""

from __future__ import annotations

from crawlkit.stages.rank import host_ranks, page_ranks

from tests.frames import collect

LINKS = (
    "from_key binary, to_key binary, from_url string, to_host string, kind string, refused string"
)


def test_hosts_that_are_addresses(engine):
    pages = [
        ("http://[2001:db8::1]/", b"a"),
        ("http://[2001:db8::2]:81/", b"b"),
        ("http://x.example/", b"c"),
    ]
    rows = [(key, b"t", url, "[2001:db8::2]", "a", None) for url, key in pages]
    links = engine.from_rows(LINKS, rows)
    (page,) = collect(page_ranks(links, 3))
    assert (page.inlinks, page.inlink_hosts) == (3, 3)
    hosts = host_ranks(
        links,
        engine.from_rows(
            "host string, kind string, is_outcome boolean, started double,"
            " outcome string, status int",
            [],
        ),
        engine.from_rows("url string, method string", []),
        engine.from_rows(
            "host string, domain string, pages int", [("[2001:db8::2]", "[2001:db8::2]", 1)]
        ),
        engine.from_rows("domain string, authority double", []),
        3,
    )
    (host,) = collect(hosts)
    assert (host.host, host.inlink_hosts) == ("[2001:db8::2]", 2)  # not its own link
