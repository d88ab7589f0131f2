"""rank counts the hosts that link to a page, those that are IPv6 addresses too."""

from __future__ import annotations

import pytest
from crawlkit.stages.rank import host_ranks, page_ranks

pytestmark = pytest.mark.spark

LINKS = "from_key binary, to_key binary, from_url string, to_host string, refused string"


def test_hosts_that_are_addresses(spark):
    pages = [
        ("http://[2001:db8::1]/", b"a"),
        ("http://[2001:db8::2]:81/", b"b"),
        ("http://x.example/", b"c"),
    ]
    rows = [(key, b"t", url, "[2001:db8::2]", None) for url, key in pages]
    links = spark.createDataFrame(rows, LINKS)
    (page,) = page_ranks(links, 3).collect()
    assert (page.inlinks, page.inlink_hosts) == (3, 3)
    hosts = host_ranks(
        links,
        spark.createDataFrame(
            [],
            "host string, kind string, is_outcome boolean, started double,"
            " outcome string, status int",
        ),
        spark.createDataFrame([], "url string, method string"),
        spark.createDataFrame(
            [("[2001:db8::2]", "[2001:db8::2]", 1)], "host string, domain string, pages int"
        ),
        spark.createDataFrame([], "domain string, authority double"),
        3,
    )
    (host,) = hosts.collect()
    assert (host.host, host.inlink_hosts) == ("[2001:db8::2]", 2)  # not its own link
