"""A real S3 server on loopback (moto, in a process of its own) with one bucket, and credentials for it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import boto3
import pytest

from crawlkit.config import S3

BUCKET = "crawl"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """The endpoint of a server with the empty bucket `crawl`; skips without moto. Sets the AWS variables of this process meanwhile."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed: no S3 server to test with")
    old = {name: os.environ.get(name) for name in KEYS}
    os.environ.update(KEYS)
    server = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r"Running on (http://127\.0\.0\.1:[0-9]+)", line):
                break
        else:
            raise RuntimeError("moto did not start")
        threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()  # its log must not fill the pipe
        boto3.client("s3", endpoint_url=found[1]).create_bucket(Bucket=BUCKET)
        yield found[1]
    finally:
        server.terminate()
        server.wait(10)
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


def settings(endpoint: str, **more: float) -> S3:
    return S3(endpoint_url=endpoint, path_style=True, **{"timeout_s": 2.0, "give_up_s": 10.0, **more})
