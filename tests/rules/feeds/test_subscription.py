"""WebSub from a subscriber's side: signatures by openssl, the hub's questions, what it sends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from crawlkit.rules.feeds.subscription import (
    MAX_CHALLENGE_CHARS,
    MAX_LEASE_S,
    Subscription,
    confirm,
    is_signed,
    pushed_urls,
    request_fields,
    secret_of,
)
from crawlkit.rules.url.canonical import DEFAULT_POLICY

from tests.cputime import within

NOW = 1_790_000_000.0
TOPIC = "http://site.example/feed?b=1&a=2"
ASKED = Subscription(
    "0" * 32,
    TOPIC,
    "http://hub.example/",
    "http://site.example/feed",
    "asked",
    "subscribe",
    NOW,
    9e5,
)
ACTIVE = replace(ASKED, state="active", pending=None, lease_s=9000.0, ends_at=NOW + 9000)
BODY = b"<feed>a pushed body</feed>"
# printf BODY | openssl dgst -METHOD -hmac "a secret"
SIGNED = {
    "sha1": "3971020f9f218825a231e16b68b609b2d8f9f463",
    "sha256": "2d315e5d19bf9c4ae8878ddffadaf911d0d63ca1aebc15cee63fa14283c5de8d",
    "sha384": (
        "93191cc1b30d37685a2d0ccee5d7875beedd70bd1c180c284a4f0171c8c4ad04"
        "9ab5340b0ecb949da1e5551ef5aa3df9"
    ),
    "sha512": (
        "aecbacc20fe7febe0cd97b00879e0b65d035ff4fa278a92490157ed706353b42"
        "fb95f9700f26151fc5b4a228bd18fe7a79706ad2504698ebf1ef6776cd98d14c"
    ),
}


@pytest.mark.parametrize("method", SIGNED)
def test_signatures_as_openssl_makes_them(method):
    field = f"{method}={SIGNED[method]}"
    assert is_signed("a secret", field, BODY)
    assert is_signed("a secret", f" {method}={SIGNED[method].upper()} ", BODY)
    assert not is_signed("a secret", field, BODY + b" ")
    assert not is_signed("another", field, BODY)
    assert not is_signed("a secret", field[:-1], BODY)


@pytest.mark.parametrize(
    "field",
    [None, "", "sha256", "sha256=", f"md5={'0' * 32}", f"SHA1={SIGNED['sha1']}", "sha1=\xff\u1234"],
)
def test_no_signature_is_none(field):
    assert not is_signed("a secret", field, BODY)


def test_the_secret_comes_from_the_token():
    # printf 'websub 00' | openssl dgst -sha256 -hmac token
    assert secret_of("token", "00") == (
        "ddf1b1835243957c60e3c591f98605594024922e2e8caebeca5c293b0ee0d103"
    )


def test_what_a_hub_is_asked():
    fields = dict(request_fields(ASKED, "subscribe", "http://me.example/cb", "s"))
    assert fields == {
        "hub.callback": "http://me.example/cb",
        "hub.mode": "subscribe",
        "hub.topic": TOPIC,
        "hub.lease_seconds": "900000",
        "hub.secret": "s",
    }
    ending = dict(request_fields(ASKED, "unsubscribe", "http://me.example/cb", "s"))
    assert {*ending} == {"hub.callback", "hub.mode", "hub.topic"}


def asks(mode: str, topic: str = TOPIC, challenge: str = "c", **more: str) -> dict[str, str]:
    return {"hub.mode": mode, "hub.topic": topic, "hub.challenge": challenge} | more


def test_what_was_asked_for_is_confirmed_with_its_lease():
    confirmed = confirm(ASKED, asks("subscribe", **{"hub.lease_seconds": "60"}), NOW)
    assert confirmed is not None
    new, body = confirmed
    assert (new.state, new.pending, new.ends_at, body) == ("active", None, NOW + 60, "c")
    assert confirm(new, asks("subscribe"), NOW) is None  # once


@pytest.mark.parametrize(
    ("given", "lease_s"),
    [("", 9e5), ("-5", 9e5), ("x", 9e5), ("\u0665", 9e5), ("0", 1.0), ("9" * 5000, MAX_LEASE_S)],
)
def test_leases_are_bounded(given, lease_s):
    confirmed = confirm(ASKED, asks("subscribe", **{"hub.lease_seconds": given}), NOW)
    assert confirmed is not None and confirmed[0].lease_s == lease_s


@pytest.mark.parametrize(
    ("subscription", "query"),
    [
        (ASKED, asks("subscribe", topic="http://site.example/feed?a=2&b=1")),  # letter by letter
        (ASKED, asks("unsubscribe")),
        (ASKED, asks("subscribe", challenge="")),
        (ASKED, asks("subscribe", challenge="c" * (MAX_CHALLENGE_CHARS + 1))),
        (ASKED, {}),
        (ACTIVE, asks("subscribe")),
        (ACTIVE, {"hub.topic": TOPIC}),
        (replace(ACTIVE, state="ended"), asks("denied")),
    ],
)
def test_what_was_not_asked_for_is_not_confirmed(subscription, query):
    assert confirm(subscription, query, NOW) is None


def test_its_end_and_its_denial():
    ended = confirm(replace(ACTIVE, pending="unsubscribe"), asks("unsubscribe"), NOW)
    assert ended is not None and (ended[0].state, ended[1]) == ("ended", "c")
    denied = confirm(ACTIVE, asks("denied", **{"hub.reason": "no " * 999}), NOW)
    assert denied is not None
    assert (denied[0].state, denied[1], len(denied[0].reason or "")) == ("denied", "", 300)


@pytest.mark.parametrize(
    ("subscription", "after_s", "is_due"),
    [
        (ASKED, 0, True),
        (ACTIVE, 0, False),
        (ACTIVE, 5999, False),
        (ACTIVE, 6001, True),  # less than a third is left
        (ACTIVE, 99_999, True),
        (replace(ACTIVE, state="denied"), 99_999, False),
        (replace(ACTIVE, state="failed"), 0, True),
    ],
)
def test_renewal_before_the_lease_ends(subscription, after_s, is_due):
    assert subscription.is_due(NOW + after_s) is is_due


def pushed(body: bytes, kind: str = "application/atom+xml", most: int = 100) -> dict:
    return pushed_urls(body, kind, "http://site.example/feed", DEFAULT_POLICY, most)


ENTRY = "<entry><id>/{0}</id><link href='/{0}'/><updated>2026-01-0{0}T00:00:00Z</updated></entry>"


def test_entries_of_what_was_sent_with_their_dates():
    body = f"<feed>{ENTRY.format(1)}{ENTRY.format(2)}</feed>".encode()
    assert pushed(body) == {
        "http://site.example/1": 1_767_225_600.0,
        "http://site.example/2": 1_767_312_000.0,
    }
    assert len(pushed(body, most=1)) == 1
    assert pushed(b"<p>a page</p><a href=/x>x</a>", "text/html") == {}
    assert pushed(b"http://site.example/a\n", "text/plain") == {}  # a list of URLs is no feed


@pytest.mark.waits
def test_a_hostile_push_is_read_in_linear_time():
    for piece in (b"<entry>", b"<link rel='hub' ", b"<entry><link href='/%d'/></entry>"):
        body = b"<feed>" + piece * (4_000_000 // len(piece))
        within(2, lambda body=body: pushed(body))
