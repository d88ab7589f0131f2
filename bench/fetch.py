"""The fetch engine beside requests, urllib3 and a bare socket, and the WARC writer beside warcio,
against nginx on loopback.

Both sides of a ratio run in one process, in turn; a ratio is that of one round, and the median is
reported.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import tempfile
import threading
from pathlib import Path
from ssl import create_default_context
from typing import Any

import requests
import urllib3
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.adapters.net.tls import prepared
from crawlkit.adapters.warc.writer import WarcWriter
from crawlkit.config import Agent, Fetch
from crawlkit.model import Answer, FetchRequest
from requests.adapters import HTTPAdapter
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from bench.measure import members, paired, write
from bench.nginx import Nginx, nginx

PAGE_BYTES = 30_000
ONE, MANY, TLS, RECORDS = 600, 1600, 120, 400  # requests or records a round
THREADS = 32
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\nContent-Length:"
    b' %d\r\nConnection: keep-alive\r\nETag: "65f0-7530"\r\n\r\n'
)


def pages() -> list[bytes]:
    """Real HTML, in pieces of PAGE_BYTES."""
    whole = b"".join(
        gzip.decompress(body)
        for name, body in members("suites/articles/articles_half.tar.gz", ".html.gz")
    )
    return [whole[at : at + PAGE_BYTES] for at in range(0, len(whole) - PAGE_BYTES, PAGE_BYTES)][
        :RECORDS
    ]


def engine_run(fetch: Fetch, urls: list[str], at_once: int, tls: Any = None) -> None:
    """Each worker asks its own host, one request after the other, as a slot does."""

    async def run() -> None:
        engine, agent = Engine(fetch, tls=tls), Agent()

        async def worker(mine: list[str]) -> None:
            for url in mine:
                answer = await engine.fetch(FetchRequest(url, request_headers(agent, url)))
                assert len(answer.body) == PAGE_BYTES, answer.error_detail

        await asyncio.gather(*(worker(urls[n::at_once]) for n in range(at_once)))
        await engine.close()

    asyncio.run(run())


def one_after_another(server: Nginx) -> dict[str, dict[str, float]]:
    """CPU a request over a connection that is kept."""
    url = f"http://127.0.0.1:{server.http}/page.html"
    fetch = Fetch(ports=(server.http,), allow_private=("127.0.0.0/8",))

    def by_requests() -> None:
        with requests.Session() as session:
            for _ in range(ONE):
                assert len(session.get(url).content) == PAGE_BYTES

    def by_urllib3() -> None:
        with urllib3.PoolManager() as pool:
            for _ in range(ONE):
                assert len(pool.request("GET", url).data) == PAGE_BYTES

    def by_socket() -> None:
        with socket.create_connection(("127.0.0.1", server.http)) as sock:
            request, size = (
                f"GET /page.html HTTP/1.1\r\nHost: 127.0.0.1:{server.http}\r\n\r\n".encode(),
                0,
            )
            for _ in range(ONE):
                sock.sendall(request)
                body = b""
                while not body.endswith(b"</html>"):
                    body += sock.recv(65536)
                size += len(body)
            assert size > ONE * PAGE_BYTES

    return paired(
        {
            "here": lambda: engine_run(fetch, [url] * ONE, 1),
            "requests": by_requests,
            "urllib3": by_urllib3,
            "socket": by_socket,
        }
    )


def many_at_once(server: Nginx) -> dict[str, dict[str, float]]:
    """Requests a second of one process, 32 at once."""
    hosts = [f"h{n}.example" for n in range(THREADS)]
    fetch = Fetch(
        connect_to=dict.fromkeys(hosts, f"127.0.0.1:{server.http}"), allow_private=("127.0.0.0/8",)
    )
    urls = [f"http://{hosts[n % THREADS]}/page.html" for n in range(MANY)]
    url = f"http://127.0.0.1:{server.http}/page.html"

    def by_threads() -> None:
        def work() -> None:
            with requests.Session() as session:
                for _ in range(MANY // THREADS):
                    assert len(session.get(url).content) == PAGE_BYTES

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return paired({"here": lambda: engine_run(fetch, urls, THREADS), "requests": by_threads}, 5)


class _ToLoopback(HTTPAdapter):
    """site.example is here: the same certificate check as ours, without a name server."""

    def __init__(self, port: int) -> None:
        self._port = port
        super().__init__()

    def build_connection_pool_key_attributes(self, request, verify, cert=None):
        host, pool = super().build_connection_pool_key_attributes(request, verify, cert)
        return host | {"host": "127.0.0.1", "port": self._port}, pool | {
            "server_hostname": "site.example",
            "assert_hostname": "site.example",
        }


def new_tls(server: Nginx) -> dict[str, dict[str, float]]:
    """CPU of a request with a connection of its own, TLS and verification included."""
    fetch = Fetch(
        connect_to={"site.example": f"127.0.0.1:{server.https}"}, allow_private=("127.0.0.0/8",)
    )
    context = prepared(create_default_context(cafile=str(server.ca)))

    def by_requests() -> None:
        with requests.Session() as session:
            session.mount("https://", _ToLoopback(server.https))
            for _ in range(TLS):
                assert (
                    len(
                        session.get("https://site.example/page.html", verify=str(server.ca)).content
                    )
                    == PAGE_BYTES
                )

    return paired(
        {
            "here": lambda: engine_run(fetch, ["https://site.example/page.html"] * TLS, 1, context),
            "requests": by_requests,
        },
        7,
    )


def records(bodies: list[bytes]) -> tuple[dict[str, dict[str, float]], dict[str, int]]:
    """Request and response records of the same pages written by both; wall and CPU, and the sizes
    of the files.
    """
    url, request = (
        "http://site.example/page.html",
        b"GET /page.html HTTP/1.1\r\nHost: site.example\r\nUser-Agent: x\r\n\r\n",
    )
    sizes: dict[str, int] = {}

    def here() -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = WarcWriter(
                Path(folder), ("bench", "r", 0, 1), {}, roll_bytes=1 << 40, roll_s=1e9
            )
            for n, body in enumerate(bodies):
                answer = Answer(
                    f"{url}?{n}",
                    200,
                    header_bytes=HEAD % len(body),
                    request_bytes=request,
                    body=body,
                    ip="127.0.0.1",
                    http_version="1.1",
                    wall_start=1.7e9,
                )
                writer.write(answer, str(n))
            # closing reads the file back, which warcio does not do: measured apart
            writer._file.flush()
            sizes["here"] = writer._offset
            writer.abandon()

    def by_warcio() -> None:
        with tempfile.TemporaryFile() as file:
            writer = WARCWriter(file, gzip=True)
            for n, body in enumerate(bodies):
                status = StatusAndHeaders(
                    "200 OK",
                    [
                        ("Server", "nginx"),
                        ("Content-Type", "text/html"),
                        ("Content-Length", str(len(body))),
                        ("Connection", "keep-alive"),
                        ("ETag", '"65f0-7530"'),
                    ],
                    "HTTP/1.1",
                )
                asked = StatusAndHeaders(
                    "GET /page.html HTTP/1.1",
                    [("Host", "site.example"), ("User-Agent", "x")],
                    is_http_request=True,
                )
                response = writer.create_warc_record(
                    f"{url}?{n}",
                    "response",
                    io.BytesIO(body),
                    len(body),
                    http_headers=status,
                    warc_headers_dict={"WARC-IP-Address": "127.0.0.1"},
                )
                writer.write_request_response_pair(
                    writer.create_warc_record(f"{url}?{n}", "request", http_headers=asked), response
                )
            sizes["warcio"] = file.tell()

    def read_back() -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = WarcWriter(
                Path(folder), ("bench", "r", 0, 1), {}, roll_bytes=1 << 40, roll_s=1e9
            )
            for n, body in enumerate(bodies):
                writer.write(
                    Answer(
                        f"{url}?{n}",
                        200,
                        header_bytes=HEAD % len(body),
                        request_bytes=request,
                        body=body,
                        ip="127.0.0.1",
                        http_version="1.1",
                        wall_start=1.7e9,
                    ),
                    str(n),
                )
            writer.close()

    return (
        paired({"here": here, "warcio": by_warcio, "here, closed and read back": read_back}, 5),
        sizes,
    )


def _per_request(way: dict[str, float], n: int) -> str:
    """CPU ms of a request, as text."""
    return f"{way['cpu_s'] / n * 1000:.3f}"


def main() -> None:
    bodies = pages()
    page = bodies[0][: PAGE_BYTES - 7] + b"</html>"
    with nginx({"page.html": page}) as server:
        kept, many, tls = one_after_another(server), many_at_once(server), new_tls(server)
    warc, sizes = records(bodies)
    megabytes = len(bodies) * PAGE_BYTES / 1e6
    rows = [
        (
            "CPU a request, connection kept: here / requests.Session.get",
            1 / kept["requests"]["cpu_ratio"],
            "at most 0.5 (goal 0.1)",
        ),
        ("… here / urllib3", 1 / kept["urllib3"]["cpu_ratio"], ""),
        ("… here / bare socket", 1 / kept["socket"]["cpu_ratio"], ""),
        (
            f"requests a second, one process: here / requests with {THREADS} threads",
            many["requests"]["wall_ratio"],
            "at least 3 (goal 12)",
        ),
        (
            "CPU of a request with a new TLS connection: here / requests",
            1 / tls["requests"]["cpu_ratio"],
            "at most 0.5",
        ),
        ("WARC MB a second: here / warcio gzip", warc["warcio"]["wall_ratio"], "at least 8"),
        (
            "… and read back at the close",
            warc["warcio"]["wall_ratio"] / warc["here, closed and read back"]["wall_ratio"],
            "",
        ),
        ("WARC bytes: here / warcio gzip", sizes["here"] / sizes["warcio"], "at most 1.20"),
    ]
    lines = [
        "# Fetching and storing 30 KB pages",
        "",
        "| ratio | measured | mark |",
        "|---|---|---|",
        *(f"| {what} | {value:.2f} | {mark} |" for what, value, mark in rows),
        "",
    ]
    lines += [
        "| way | CPU ms a request |",
        "|---|---|",
        *(f"| {name}, connection kept | {_per_request(way, ONE)} |" for name, way in kept.items()),
        *(
            f"| {name}, new TLS connection | {_per_request(way, TLS)} |"
            for name, way in tls.items()
        ),
        "",
    ]
    lines += [
        "| way | requests a second |",
        "|---|---|",
        *(
            f"| {name}, {THREADS} at once | {MANY / way['wall_s']:.0f} |"
            for name, way in many.items()
        ),
        "",
    ]
    lines += [
        "| way | WARC MB a second (payload) |",
        "|---|---|",
        *(f"| {name} | {megabytes / way['wall_s']:.0f} |" for name, way in warc.items()),
        "",
    ]
    result = {
        "ratios": {what: value for what, value, _ in rows},
        "kept": kept,
        "many": many,
        "tls": tls,
        "warc": warc,
        "warc_bytes": sizes,
    }
    write("fetch", result, "\n".join(lines), ("requests", "urllib3", "warcio", "isal"))
