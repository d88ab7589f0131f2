"""`crawlkit serve` and the steering verbs as processes and commands."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.cli.main import load_all
from typer.testing import CliRunner

from tests.control.smallcrawl import NOW
from tests.rounds.crawlproc import command, environment

pytestmark = pytest.mark.waits

RUN = CliRunner()
TOKEN = "a-token-of-enough-characters"


def hang_up(port: int) -> None:
    """Send half of a ping's body."""
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        head = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n"
        client.sendall(f"POST /indexnow HTTP/1.1\r\n{head}{{".encode())
        time.sleep(0.3)  # the server waits for the rest by then


def test_it_serves_on_loopback_with_a_token(crawl):
    with subprocess.Popen(
        command("serve", "--data", crawl.data, "--port", 0),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(CRAWLKIT_TOKEN=TOKEN),
    ) as server:
        try:
            place = re.search(r"http://127\.0\.0\.1:[0-9]+/", server.stderr.readline())[0]
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(place + "v1/status", timeout=20)
            request = urllib.request.Request(
                place + "v1/blacklist",
                json.dumps({"host": "a.test"}).encode(),
                {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
            )
            assert json.load(urllib.request.urlopen(request, timeout=20))["target"] == "a.test"
            hang_up(int(place.rsplit(":", 1)[1].strip("/")))
            assert b"<title>Crawl status" in urllib.request.urlopen(place, timeout=20).read()
        finally:
            server.send_signal(signal.SIGINT)
            told = server.communicate(timeout=20)[1]
    assert "Traceback" not in told
    assert read_orders(crawl.objects).stopped("a.test", "a.test") is not None


def test_it_does_not_start_without_a_token(crawl):
    done = subprocess.run(
        command("serve", "--data", crawl.data, "--port", 0),
        capture_output=True,
        text=True,
        timeout=60,
        env={k: v for k, v in environment().items() if k != "CRAWLKIT_TOKEN"},
    )
    assert done.returncode == 2
    assert "CRAWLKIT_TOKEN" in done.stderr


def told(crawl, *args: str) -> dict:
    done = RUN.invoke(load_all(), [*args, "--data", str(crawl.data), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_verbs(crawl):
    round_ = crawl.open_round(NOW)
    assert told(crawl, "block", "a.test", "--reason", "x")["verb"] == "block"
    assert told(crawl, "command", "unblock", "a.test")["verb"] == "unblock"
    assert (
        told(crawl, "complain", "b.example", "--domain", "--reason", "y")["arguments"]["action"]
        == "block"
    )
    assert told(crawl, "host", "set", "a.test", "--delay-s", "3")["arguments"]["delay_s"] == 3
    assert told(crawl, "recrawl", "http://a.test/dead", "--priority", "critical")["queued"] == 1
    assert told(crawl, "hint", "http://a.test/", "http://new.test/")["added"] == 1
    assert told(crawl, "boost", "http://a.test/", "--points", "5", "--dry-run")["dry_run"]
    assert told(crawl, "pause", round_.id)["target"] == round_.id
    assert told(crawl, "resume", round_.id, "--command-id", "r1")["repeated"] is False
    assert told(crawl, "resume", round_.id, "--command-id", "r1")["repeated"] is True
    assert told(crawl, "abandon", round_.id)["state"] == "abandoned"
    assert len(told(crawl, "command", "list")["commands"]) == 9
    assert (
        RUN.invoke(load_all(), ["block", "http://a.test/", "--data", str(crawl.data)]).exit_code
        == 2
    )
    assert RUN.invoke(load_all(), ["pause", "nope", "--data", str(crawl.data)]).exit_code == 2
