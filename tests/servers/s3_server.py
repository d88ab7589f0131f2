"""Real S3 servers on loopback, each in a process of its own, with one bucket, and credentials for
it: moto, and versitygw where it is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from crawlkit.config import S3

BUCKET = "crawl"
KEYS = {
    "AWS_ACCESS_KEY_ID": "key-of-tests",
    "AWS_SECRET_ACCESS_KEY": "secret-of-tests",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """The endpoint of a server with the empty bucket `crawl`; skips without moto.

    Sets the AWS variables of this process meanwhile.
    """
    pytest.importorskip(
        "moto.server", reason="moto[server] is not installed: no S3 server to test with"
    )
    with _serving(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        r"Running on (http://127\.0\.0\.1:[0-9]+)",
    ) as endpoint:
        yield endpoint


@contextlib.contextmanager
def versitygw(folder: Path) -> Iterator[str]:
    """The same with a second, independent server over a folder; skips without it
    (CRAWLKIT_VERSITYGW or on PATH).
    """
    binary = os.environ.get("CRAWLKIT_VERSITYGW") or shutil.which("versitygw")
    if not binary:
        pytest.skip(
            "versitygw is not installed: `go install"
            " github.com/versity/versitygw/cmd/versitygw@latest`, then name it by"
            " CRAWLKIT_VERSITYGW"
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir()
    with _serving(
        [
            binary,
            "--access",
            KEYS["AWS_ACCESS_KEY_ID"],
            "--secret",
            KEYS["AWS_SECRET_ACCESS_KEY"],
            "--port",
            f"127.0.0.1:{port}",
            "posix",
            str(folder),
        ],
        rf"(http://127\.0\.0\.1:{port})",
    ) as endpoint:
        yield endpoint


@contextlib.contextmanager
def _serving(command: list[str], says: str) -> Iterator[str]:
    old = {name: os.environ.get(name) for name in KEYS}
    os.environ.update(KEYS)
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in server.stdout:
            if found := re.search(says, line):
                break
        else:
            raise RuntimeError(f"{command[0]} did not start")
        threading.Thread(
            target=lambda: [None for _ in server.stdout], daemon=True
        ).start()  # its log must not fill the pipe
        _make_bucket(found[1], BUCKET)
        yield found[1]
    finally:
        server.terminate()
        server.wait(10)
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def new_bucket(endpoint: str) -> str:
    """A bucket of its own: a JVM keeps one way to each bucket, and each test server has one named
    `crawl`.
    """
    name = f"crawl-{uuid.uuid4().hex[:8]}"
    _make_bucket(endpoint, name)
    return name


def _make_bucket(endpoint: str, name: str) -> None:
    import boto3  # a fifth of a second

    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket=name)


def settings(endpoint: str, **more: float) -> S3:
    return S3(
        endpoint_url=endpoint, path_style=True, **{"timeout_s": 2.0, "give_up_s": 10.0, **more}
    )
