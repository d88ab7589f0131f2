"""One round of the kill tests' web with its crawl in S3, and the same round on a folder."""

from __future__ import annotations

import contextlib
import os

import pytest
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job
from crawlkit.runtime.jars import s3_jar_folder

from tests.fakeweb import EPOCH
from tests.rounds.test_kills import ROUND_ID, WEB, World
from tests.servers.fault_proxy import apart
from tests.servers.s3_server import moto, new_bucket, versitygw

NEEDS_S3_JARS = pytest.mark.skipif(
    not s3_jar_folder().is_dir(),
    reason="the JARs for tables in S3 are not here: `make setup-s3`",
)


@contextlib.contextmanager
def in_environment(endpoint: str):
    """boto3 and delta-rs of this process find the server by themselves."""
    new = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }
    old = {name: os.environ.get(name) for name in new}
    os.environ |= new
    try:
        yield endpoint
    finally:
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@contextlib.contextmanager
def s3_server(name: str, folder):
    """The server of that name, its address in the environment."""
    with contextlib.ExitStack() as stack:
        if name == "moto":
            url = stack.enter_context(
                apart(stack.enter_context(moto()))
            )  # moto alone checks and sets conditions without a lock
        else:
            url = stack.enter_context(versitygw(folder / "files"))
        yield stack.enter_context(in_environment(url))


class S3World(World):
    """The same with the crawl in S3, its seeds injected there."""

    def __init__(self, on, folder, endpoint: str, **changes: object) -> None:
        super().__init__(
            folder,
            None,
            **{
                "s3.endpoint_url": endpoint,
                "s3.path_style": True,
                "s3.timeout_s": 5,
                "s3.give_up_s": 20,
                **changes,
            },
        )
        self.data = f"s3a://{new_bucket(endpoint)}/{folder.name}"
        job = self.job(on)
        job.run("inject", job.crawl.open_round(EPOCH), lines=sorted(WEB.pages))


def go(job: Job) -> None:
    round_ = job.crawl.round(ROUND_ID)
    with job.driving(round_):
        run_round(job, round_)
