"""An nginx of our own on loopback, with a configuration and a certificate made on the spot."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization

from tests.servers.tls_server import _authority, _certificate

_HEAD = """
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
daemon off;
{user}
events {{ worker_connections 4096; }}
http {{
  {log}
  keepalive_requests 100000000;
  client_body_temp_path {folder}/t1;
  proxy_temp_path {folder}/t2;
  fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4;
  scgi_temp_path {folder}/t5;
"""
_SERVERS = """
  types {{ text/html html; }}
  server {{ listen 127.0.0.1:{http}; root {folder}/html; }}
  server {{
    listen 127.0.0.1:{https} ssl;
    root {folder}/html;
    keepalive_timeout 0;
    ssl_certificate {folder}/server.pem;
    ssl_certificate_key {folder}/server.pem;
  }}
"""


class Nginx(NamedTuple):
    """Ports of a running server; https ends each connection after one answer.

    `ca`: file that its certificate (site.example) is verified by.
    """

    http: int
    https: int
    ca: Path


@contextlib.contextmanager
def nginx(files: dict[str, bytes]) -> Iterator[Nginx]:
    """Serves the files; stopped at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "html").mkdir()
        for path, data in files.items():
            (folder / "html" / path).write_bytes(data)
        certificate, key = _certificate("site.example", _authority(), -1, 2)
        pem = serialization.Encoding.PEM
        (folder / "server.pem").write_bytes(
            certificate.public_bytes(pem)
            + key.private_bytes(
                pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (folder / "ca.pem").write_bytes(_authority()[0].public_bytes(pem))
        http, https = _free_ports(2)
        with running(
            folder,
            configuration(
                folder, "access_log off;", _SERVERS.format(folder=folder, http=http, https=https)
            ),
            "127.0.0.1",
            http,
        ):
            yield Nginx(http, https, folder / "ca.pem")


def configuration(folder: Path, log: str, servers: str) -> str:
    """A whole nginx.conf that keeps everything below `folder`; started as root, the workers stay
    root, so that they can read it.

    log: access_log directives. servers: what else stands in the http block.
    """
    user = "user root;" if Path("/proc/self").stat().st_uid == 0 else ""
    return _HEAD.format(folder=folder, user=user, log=log) + servers + "}\n"


@contextlib.contextmanager
def running(folder: Path, conf: str, address: str, port: int) -> Iterator[None]:
    """An nginx with this configuration, from when it answers at address and port."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        sys.exit("this benchmark needs nginx on PATH")
    (folder / "nginx.conf").write_text(conf)
    process = subprocess.Popen(
        [program, "-c", folder / "nginx.conf", "-p", folder], stderr=subprocess.DEVNULL
    )
    try:
        _await(address, port)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        return [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            for _ in range(n)
        ]


def _await(address: str, port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.05)
    sys.exit("nginx did not start")
