"""Two engines, one behaviour: the native engine and the reference engine on the same loopback
servers.
"""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.adapters.net.requests_engine import RequestsEngine
from crawlkit.config import Agent, Fetch
from crawlkit.model import Answer, FetchRequest
from crawlkit.outcomes import Reason

from tests.rules.http.http_cases import CASES, ok
from tests.servers.raw_server import raw_server
from tests.servers.tls_server import tls_server, trusting_context

pytestmark = pytest.mark.waits

# Where the reference answers otherwise, and why ours is right.
DIFFERENT = {
    "white space round values": "http.client leaves the white space after a value (RFC 9110 5.5)",
    "103 with fields": (
        "http.client takes any interim answer but 100 for the final one (RFC 9110 15.2)"
    ),
    "304 chunked": "urllib3 looks for chunks where there is no body (RFC 9112 6.3)",
    "cut in a chunk": "urllib3 drops the part of a chunk that came",
    "cut after a chunk's CR": "urllib3 drops a chunk whose line end did not come whole",
}


def fetch(engine_class, config: Fetch, request: FetchRequest, tls=None, **kw) -> Answer:
    async def one() -> Answer:
        engine = engine_class(config, tls=tls)
        try:
            return await engine.fetch(request, **kw)
        finally:
            await engine.close()

    return asyncio.run(one())


def both(config: Fetch, url: str, tls=None, **kw) -> list[Answer]:
    request = FetchRequest(url, request_headers(Agent(), url))
    return [fetch(engine, config, request, tls, **kw) for engine in (Engine, RequestsEngine)]


def local(*ports: int, **more) -> Fetch:
    return Fetch(
        **{"allow_private": ("127.0.0.0/8",), "ports": (80, 443, *ports), "timeout_s": 3.0, **more}
    )


def test_well_formed_answers_agree_and_odd_ones_never_raise():
    def serve(connection: socket.socket, request: bytes, n: int) -> bool:
        connection.sendall(CASES[int(request.split(b" ")[1][1:])].raw)
        return False

    differ = {}
    with raw_server(serve) as server:
        for at, case in enumerate(CASES):
            ours, reference = both(
                local(server.port),
                f"http://127.0.0.1:{server.port}/{at}",
                max_body_bytes=case.limit,
            )
            assert (reference.error is None) == (reference.status is not None)
            if case.note is None and case.error is None and case.name not in DIFFERENT:
                seen = [
                    (
                        a.error,
                        a.status,
                        a.body,
                        a.truncated,
                        a.transfer_decoded,
                        [(n.lower(), v) for n, v in a.headers],
                    )
                    for a in (ours, reference)
                ]
                if seen[0] != seen[1]:
                    differ[case.name] = seen
    assert differ == {}


def test_requests_are_the_same():
    with raw_server(ok("Content-Length: 0")) as server:
        both(local(server.port), f"http://127.0.0.1:{server.port}/a%20b?c=%26&d")
        first, second = (r.split(b"\r\n") for r in server.requests)
    assert first[0] == second[0] == b"GET /a%20b?c=%26&d HTTP/1.1"
    assert set(first) <= set(second)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("fault", [None, "expired", "self_signed", "wrong_name", "no_tls"])
def test_tls_verdicts_agree(fault):
    with tls_server(fault, "site.example") as port:
        config = local(connect_to={"site.example": f"127.0.0.1:{port}"})
        ours, reference = both(config, "https://site.example/", trusting_context())
        assert (ours.error, ours.body) == (reference.error, reference.body)
        accepted = local(
            connect_to={"site.example": f"127.0.0.1:{port}"}, unverified_tls_hosts=("site.example",)
        )
        ours, reference = both(accepted, "https://site.example/", trusting_context())
        assert (ours.error, ours.body, ours.notes) == (
            reference.error,
            reference.body,
            reference.notes,
        )


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "http://127.0.0.1:22/", "ftp://127.0.0.1/", "http://[::1]/"]
)
def test_refusals_agree(url):
    answers = [fetch(engine, local(), FetchRequest(url, [])) for engine in (Engine, RequestsEngine)]
    assert answers[0].error == answers[1].error is not None


def test_failures_agree():
    with raw_server(lambda c, r, n: time.sleep(1)) as server:
        assert {
            a.error
            for a in both(local(server.port), f"http://127.0.0.1:{server.port}/", deadline_s=0.3)
        } == {Reason.TIMEOUT}
    assert {a.error for a in both(local(server.port), f"http://127.0.0.1:{server.port}/")} == {
        Reason.CONNECT_REFUSED
    }
    with raw_server(ok("Content-Type: image/png", "Content-Length: 1", body=b"x")) as server:
        assert {a.error for a in both(local(server.port), f"http://127.0.0.1:{server.port}/")} == {
            Reason.CONTENT_TYPE
        }
    with raw_server(ok("Content-Encoding: gzip", "Content-Length: 3", body=b"raw")) as server:
        assert {a.body for a in both(local(server.port), f"http://127.0.0.1:{server.port}/")} == {
            b"raw"
        }
