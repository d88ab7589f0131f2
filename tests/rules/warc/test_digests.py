"""Digests and names of WARC records: values of hashlib and uuid, by the part in C and by its Python
twin.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import random
import sys
import threading
import uuid

import pytest
from crawlkit.rules.warc import digests

SPACE = uuid.NAMESPACE_URL.bytes


@pytest.fixture(params=["as built", "twin"])
def made(request, monkeypatch):
    """The module as it works here, and as it does where no part in C is built."""
    if request.param == "as built":
        return digests
    monkeypatch.setitem(sys.modules, "crawlkit.native._sha1", None)
    spec = importlib.util.find_spec("crawlkit.rules.warc.digests")
    twin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(twin)
    assert twin.sha1_pair.__module__ == "crawlkit.rules.warc.digests"
    return twin


def known(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def test_the_standards_example(made):
    assert (
        made.sha1_digest(b"abc")
        == "sha1:"
        + base64.b32encode(bytes.fromhex("a9993e364706816aba3e25717850c26c9cd0d89d")).decode()
    )  # FIPS 180-4
    assert (
        made.sha1_urn(uuid.NAMESPACE_DNS.bytes, b"www.example.com")
        == "<urn:uuid:2ed6657d-e927-568b-95e1-2665a8aea6a2>"
    )  # RFC 9562 A.4


def test_all_lengths_around_blocks(made):
    rng = random.Random(1)
    bodies = [
        rng.randbytes(n)
        for n in (*range(0, 70), *range(100, 140), 183, 184, 191, 192, 193, 1000, 65_536 + 7)
    ]
    for n in (*range(0, 140), 1000):
        head = rng.randbytes(n)
        for body in bodies if n % 8 in (0, 7) else rng.sample(bodies, 6):
            assert made.sha1_pair(head, body) == (known(body), known(head + body)), (n, len(body))
            assert made.sha1_digest(head, body) == known(head + body)
        assert made.sha1_digest(head) == known(head)
        assert (
            made.sha1_urn(SPACE, head.hex().encode())
            == f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, head.hex())}>"
        )


def test_any_buffer_wherever_it_begins(made):
    data = random.Random(2).randbytes(5000)
    for at in range(0, 70):
        view = memoryview(bytearray(data))[at:]
        assert made.sha1_pair(view[:333], view[333:]) == (known(data[at + 333 :]), known(data[at:]))


def test_threads_at_once(made):
    """Buffers are read while others run."""
    bodies = [bytes([n]) * 300_000 for n in range(4)]
    found: dict[int, set[tuple[str, str]]] = {n: set() for n in range(4)}

    def work(n: int) -> None:
        for _ in range(20):
            found[n].add(made.sha1_pair(b"head", bodies[n]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {n: {(known(body), known(b"head" + body))} for n, body in enumerate(bodies)}


def test_what_is_no_buffer_is_refused():
    _sha1 = pytest.importorskip("crawlkit.native._sha1", reason="the parts in C are not built")
    if not hasattr(_sha1, "sha1_pair"):
        pytest.skip("the processor has no instructions for SHA-1")
    for call in (
        lambda: _sha1.sha1_pair("a", b""),
        lambda: _sha1.sha1_pair(b"", "a"),
        lambda: _sha1.sha1_pair(b""),
        lambda: _sha1.sha1_digest(),
        lambda: _sha1.sha1_digest(b"", b"", b""),
        lambda: _sha1.sha1_urn(None, b""),
    ):
        with pytest.raises((TypeError, BufferError)):
            call()
    assert _sha1.sha1_digest(memoryview(b"abc")) == known(b"abc")
