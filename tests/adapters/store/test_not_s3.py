"""What answers is no S3 store: a web page, an error page, noise.

One message that names the setting, no traceback.
"""

from __future__ import annotations

import http.server
import threading

import pytest
from crawlkit.adapters.store.objects import StoreRefused, StoreUnavailable
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config import ConfigError, parse_config
from crawlkit.exports.source import Source

from tests.rounds.crawlproc import run
from tests.servers.s3_server import KEYS, settings

pytestmark = pytest.mark.waits

PAGES = {
    "page": (200, b"<html>a console</html>"),
    "lost page": (404, b"<html>nothing</html>"),
    "noise": (200, b"<ListBucketResult><Contents>\xff"),
}


@pytest.fixture(params=PAGES)
def site(request, monkeypatch):
    """(kind of answer, endpoint) of a web server that gives one answer to whatever it is asked."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    status, body = PAGES[request.param]

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield request.param, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_objects(site):
    kind, endpoint = site
    store = open_objects("s3://crawl/x", settings(endpoint, give_up_s=1))
    for call in (lambda: store.get("a"), lambda: store.put_if_absent("a", b"1")):
        with pytest.raises(
            (StoreRefused, StoreUnavailable),
            match="HTTP 404" if kind == "lost page" else "s3.endpoint_url",
        ):
            call()


def test_commands(site, tmp_path):
    kind, endpoint = site
    sets = [
        f"--set=s3.{key}={value}"
        for key, value in {
            "endpoint_url": endpoint,
            "region": "us-east-1",
            "path_style": "true",
            "give_up_s": 1,
        }.items()
    ]
    done = run("status", "--data", "s3://crawl/x", *sets)
    assert (
        done.code == 2
        and done.err.startswith("crawlkit: cannot get s3://crawl/x/crawl.yaml")
        and "Traceback" not in done.err
    )
    cfg = parse_config("", sets=tuple(s.removeprefix("--set=") for s in sets))
    with pytest.raises((StoreRefused, StoreUnavailable, ConfigError)):
        Source("s3://crawl/x", cfg)


def test_exports_of_a_store_that_is_down(monkeypatch):
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreUnavailable, match="s3.endpoint_url"):
        Source(
            "s3://crawl/x",
            parse_config(
                "s3: {endpoint_url: 'http://127.0.0.1:1', region: us-east-1, path_style: true,"
                " give_up_s: 1}"
            ),
        )
