"""Digests and names of WARC records: values of the standards, of hashlib and of uuid."""

from __future__ import annotations

import base64
import hashlib
import random
import uuid

import pytest
from crawlkit.rules.warc import digests

SPACE = uuid.NAMESPACE_URL.bytes


def known(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def test_the_standards_example():
    assert (
        digests.sha1_digest(b"abc")
        == "sha1:"
        + base64.b32encode(bytes.fromhex("a9993e364706816aba3e25717850c26c9cd0d89d")).decode()
    )  # FIPS 180-4
    assert (
        digests.sha1_urn(uuid.NAMESPACE_DNS.bytes, b"www.example.com")
        == "<urn:uuid:2ed6657d-e927-568b-95e1-2665a8aea6a2>"
    )  # RFC 9562 A.4


@pytest.mark.waits
def test_all_lengths_around_blocks():
    rng = random.Random(1)
    bodies = [
        rng.randbytes(n)
        for n in (*range(0, 70), *range(100, 140), 183, 184, 191, 192, 193, 1000, 65_536 + 7)
    ]
    for n in (*range(0, 140), 1000):
        head = rng.randbytes(n)
        for body in bodies if n % 8 in (0, 7) else rng.sample(bodies, 6):
            assert digests.sha1_pair(head, body) == (known(body), known(head + body)), (
                n,
                len(body),
            )
            assert digests.sha1_digest(head, body) == known(head + body)
        assert digests.sha1_digest(head) == known(head)
        assert (
            digests.sha1_urn(SPACE, head.hex().encode())
            == f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, head.hex())}>"
        )


def test_any_buffer_wherever_it_begins():
    data = random.Random(2).randbytes(5000)
    for at in range(0, 70):
        view = memoryview(bytearray(data))[at:]
        assert digests.sha1_pair(view[:333], view[333:]) == (
            known(data[at + 333 :]),
            known(data[at:]),
        )
