"""A hub of WebSub on loopback: it takes subscriptions, asks back, and sends what is published.

Written from the Recommendation alone; nothing of the crawler is in it.
"""

from __future__ import annotations

import hashlib
import hmac
import http.server
import threading
import urllib.error
import urllib.parse
import urllib.request
from typing import Any


def call(url: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body of a GET, or of a POST with a body."""
    request = urllib.request.Request(
        url, body, {k.replace("_", "-"): v for k, v in headers.items()}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


class Hub:
    """subscribers: callback -> its form. asked: every form, in order. denies: topics.

    lease_s: granted, whatever is asked for.
    """

    def __init__(self, address: str = "127.0.0.1", lease_s: int = 86_400) -> None:
        self.lease_s = lease_s
        self.subscribers: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        self.agents: list[str] = []
        self.denies: set[str] = set()
        self.has_moved = False  # requests to / are sent on
        self.in_flight = self.most_in_flight = 0
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hub.in_flight += 1
                hub.most_in_flight = max(hub.most_in_flight, hub.in_flight)
                length = int(self.headers["Content-Length"])
                text = self.rfile.read(length).decode()
                form = dict(urllib.parse.parse_qsl(text, strict_parsing=True))
                hub.asked.append(form)
                hub.agents.append(self.headers["User-Agent"])
                status = 307 if hub.has_moved and self.path == "/" else hub.take(form)
                hub.in_flight -= 1
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", "/new")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def take(self, form: dict[str, str]) -> int:
        """The status of the answer to a request: 202 if it was verified, denied or not."""
        if not form.get("hub.callback", "").startswith("http"):
            return 400
        if form["hub.topic"] in self.denies:
            self.ask(form, {"hub.mode": "denied", "hub.reason": "not here"})
            return 202
        challenge = hashlib.sha256(repr(sorted(form.items())).encode()).hexdigest()
        question = {"hub.mode": form["hub.mode"], "hub.challenge": challenge}
        if form["hub.mode"] == "subscribe":
            question["hub.lease_seconds"] = str(self.lease_s)
        if self.ask(form, question) == (200, challenge.encode()):
            if form["hub.mode"] == "subscribe":
                self.subscribers[form["hub.callback"]] = form
            else:
                self.subscribers.pop(form["hub.callback"], None)
        return 202

    def ask(self, form: dict[str, str], question: dict[str, str]) -> tuple[int, bytes]:
        """A GET on a callback."""
        query = urllib.parse.urlencode({"hub.topic": form["hub.topic"], **question})
        return call(f"{form['hub.callback']}?{query}")

    def publish(self, topic: str, body: bytes, method: str = "sha256") -> list[int]:
        """Send content to the subscribers of a topic, signed with their secrets; the statuses."""
        return [
            call(
                callback,
                body,
                Content_Type="application/atom+xml",
                X_Hub_Signature=(
                    f"{method}={hmac.new(form['hub.secret'].encode(), body, method).hexdigest()}"
                ),
            )[0]
            for callback, form in self.subscribers.items()
            if form["hub.topic"] == topic
        ]
