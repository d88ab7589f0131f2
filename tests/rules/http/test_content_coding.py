from __future__ import annotations

import gzip
import os
import zlib

import brotli
import pytest
from backports import zstd
from crawlkit.rules.http.content_coding import codings, decode_content
from hypothesis import given, strategies as st

from tests.cputime import within

TEXT = b"hello crawler " * 50
ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "identity": bytes,
}


@given(st.binary(max_size=2000), st.lists(st.sampled_from(sorted(ENCODERS)), max_size=4))
def test_undoes_what_was_applied(body, names):
    payload = body
    for name in names:
        payload = ENCODERS[name](payload)
    assert decode_content(payload, names)[:4] == (body, None, None, False)
    assert decode_content(payload, [", ".join(names).upper()]).body == body


def test_lists_of_codings():
    assert codings(["GZIP , identity", "", " x-gzip,br"]) == ["gzip", "gzip", "br"]


def test_raw_deflate():
    raw = zlib.compressobj(wbits=-15)
    assert decode_content(raw.compress(TEXT) + raw.flush(), ["deflate"]).body == TEXT


def test_members_and_padding():
    assert decode_content(gzip.compress(TEXT) + gzip.compress(b"more") + b"\0" * 9, ["gzip"])[
        :3
    ] == (TEXT + b"more", None, None)
    assert (
        decode_content(zstd.compress(TEXT) + zstd.compress(b"more"), ["zstd"]).body
        == TEXT + b"more"
    )


@pytest.mark.waits
@pytest.mark.parametrize(
    "body",
    [b"", TEXT, os.urandom(300_000), bytes(3_000_000)],
    ids=["nothing", "text", "noise", "zeros"],
)
@pytest.mark.parametrize("padding", [b"\n", b"\0" * 100_000])
def test_bytes_after_a_brotli_stream_are_padding(body, padding):
    assert decode_content(brotli.compress(body) + padding, ["br"])[:4] == (body, None, None, False)


def test_damaged_brotli_keeps_what_came_before():
    stream = brotli.Compressor()
    whole_block = stream.process(TEXT) + stream.flush()
    found = decode_content(
        whole_block + b"\x0e" * 9, ["br"]
    )  # a block of the reserved kind (RFC 7932 9.2)
    assert found.body == TEXT and found.error and not found.raw_kept


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_cut_payloads_keep_what_was_decoded(name):
    noise = os.urandom(20_000)
    found = decode_content(ENCODERS[name](noise)[:10_000], [name])
    assert found.error and "incomplete" in found.error and noise.startswith(found.body)
    assert not found.body or len(found.body) > 5000 or name in ("br", "zstd")


@pytest.mark.waits
def test_damage_keeps_what_came_before():
    noise = os.urandom(300_000)
    broken = bytearray(gzip.compress(noise))
    broken[-6] ^= 0xFF  # the check sum
    assert decode_content(bytes(broken), ["gzip"]).body == noise
    assert decode_content(bytes(broken), ["gzip"]).error


@pytest.mark.parametrize("names", [["utf-8"], ["gzip", "rot13"], ["gzip"] * 6])
def test_unknown_codings_leave_the_payload(names):
    found = decode_content(TEXT, names)
    assert found.body == TEXT and found.raw_kept and found.error


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_plain_payload_under_a_coding_is_kept(name):
    found = decode_content(b"<html>plain", [name])
    assert found.body == b"<html>plain" and found.raw_kept and found.error


def test_no_body():
    for name in ENCODERS:
        assert decode_content(b"", [name]) == (
            b"",
            None,
            None,
            False,
            () if name == "identity" else (name.removeprefix("x-"),),
        )


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_the_limit_is_exact(name):
    payload = ENCODERS[name](b"x" * 1000)
    assert decode_content(payload, [name], 1000)[:2] == (b"x" * 1000, None)
    assert decode_content(payload, [name], 999)[:2] == (b"x" * 999, "length")
    assert decode_content(b"x" * 1000, [], 999)[:2] == (b"x" * 999, "length")


@pytest.mark.waits
def test_many_empty_members_are_linear():
    assert within(0.5, lambda: decode_content(gzip.compress(b"") * 9_000, ["gzip"]))[:3] == (
        b"",
        None,
        None,
    )
    assert within(0.5, lambda: decode_content(gzip.compress(b"") * 100_000, ["gzip"])).error


@given(st.binary(max_size=400), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_never_raises(noise, name):
    good = bytearray(ENCODERS[name](TEXT))
    good[len(good) // 2 : len(good) // 2 + 5] = noise[:5]
    assert len(decode_content(bytes(good), [name], 500).body) <= 500
    assert len(decode_content(noise, [name], 100).body) <= 100


def test_a_layer_that_is_named_but_not_there_keeps_what_the_others_gave():
    """Two hops that each name the one coding: the page is kept, and flagged."""
    once = gzip.compress(TEXT)
    found = decode_content(once, ["gzip", "gzip"])
    assert (found.body, found.raw_kept, found.truncated) == (TEXT, False, None) and found.error
    found = decode_content(once, ["br, gzip"])
    assert (found.body, found.raw_kept) == (TEXT, False) and found.error
    found = decode_content(TEXT, ["gzip", "gzip"])
    assert (found.body, found.raw_kept) == (TEXT, True) and found.error


@pytest.mark.parametrize("damage", [-1, -5, -8])
def test_a_wrong_checksum_or_length_keeps_the_text(damage):
    for name, data in (
        ("gzip", bytearray(gzip.compress(TEXT))),
        ("deflate", bytearray(zlib.compress(TEXT))),
    ):
        data[max(damage, -4) if name == "deflate" else damage] ^= 0xFF
        found = decode_content(bytes(data), [name])
        assert (found.body, found.raw_kept) == (TEXT, False) and found.error
