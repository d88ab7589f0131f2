"""rules.domains against the public suffix list's own test rows."""

from __future__ import annotations

import hashlib
import socket

import pytest
from crawlkit.rules.url.domains import host_bucket, registered_domain
from hypothesis import given, strategies as st

from tests.shared_data import shared_rows


def test_psl_rows():
    rows = shared_rows("suites/psl/psl.jsonl")
    assert len(rows) == 78
    for row in rows:
        if row["host"] is None:
            continue
        host = row["host"]
        if host.startswith(
            "."
        ):  # no host; what we make of it does not matter as long as it is one key
            assert registered_domain(host)
            continue
        assert registered_domain(host) == (row["registered_domain"] or host.lower()), row


@pytest.mark.parametrize(
    "host, want",
    [
        ("10.2.3.4", "10.2.3.4"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("localhost", "localhost"),
        ("WWW.Example.COM.", "example.com"),
        ("co.uk", "co.uk"),
        ("a.b.unlisted-zone", "b.unlisted-zone"),  # default rule *
        ("a.b.github.io", "b.github.io"),
        ("", ""),
        ("a..b.example", "b.example"),
    ],
)
def test_by_hand(host, want):
    assert registered_domain(host) == want


def test_no_network(monkeypatch):
    monkeypatch.setattr(socket, "socket", None)
    assert registered_domain("fresh-name-for-this-test.co.uk") == "fresh-name-for-this-test.co.uk"


@given(st.text(max_size=40))
def test_any_text_has_one_key(host):
    assert registered_domain(registered_domain(host)) == registered_domain(host)


def test_bucket_is_the_hash():
    digest = hashlib.sha256(b"example.com").digest()
    assert host_bucket("example.com", 8) == int.from_bytes(digest[:8], "big") % 8


@given(st.text(max_size=30), st.integers(0, 15).map(lambda n: 1 << n))
def test_doubling_splits(domain, buckets):
    before = host_bucket(domain, buckets)
    assert host_bucket(domain, 2 * buckets) in (before, before + buckets)
