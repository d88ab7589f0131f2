"""The sample site: a folder of small hosts, served on loopback under their own names.

    with serve() as site:
        crawl(site.seeds, site.config())

It comes with the package; any folder of its form can be served. It has one folder per host name
with its files, and `_meta.json` in it where something is not a file: `redirects` {path: [status,
target]}, `statuses` {path: status}, `last_modified` {path: HTTP date}. `index.html` is also the
folder's own path. `site.json` beside the hosts lists the seeds.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from crawlkit.local.web_server import Reply, Request, WebServer

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".xml": "application/xml",
    ".css": "text/css",
}
NOT_FOUND = (
    b"<!doctype html><title>Not found</title><h1>Not found</h1><p>There is no page at this address."
)


class SampleSite:
    """The hosts of a folder behind one server on loopback; a context manager.

    OSError if the folder cannot be read.

    Attributes: hosts (name -> address), seeds (URLs), port.
    """

    def __init__(self, folder: str | Path, port: int = 0) -> None:
        root = Path(folder)
        self.seeds: list[str] = json.loads((root / "site.json").read_text(encoding="utf-8"))[
            "seeds"
        ]
        names = sorted(p.name for p in root.iterdir() if p.is_dir())
        self.hosts = {name: f"127.77.{i // 250}.{i % 250 + 1}" for i, name in enumerate(names)}
        self._by_address = {address: name for name, address in self.hosts.items()}
        self._replies = {name: _replies(root / name) for name in names}
        self._server = WebServer(self.hosts.values(), self._answer, port)
        self.port = self._server.port

    def connect_to(self) -> dict[str, str]:
        """Value of the setting `fetch.connect_to`: host name -> address:port."""
        return {name: f"{address}:{self.port}" for name, address in self.hosts.items()}

    def config(self) -> dict[str, dict[str, Any]]:
        """The settings that a crawl of the site needs: section -> key -> value."""
        # the site is ours: no need to wait a second
        own = {
            "delay_s": 0.1,
            "domain_delay_s": 0.05,
            "ip_delay_s": 0.05,
        }
        return {
            "fetch": {
                "connect_to": self.connect_to(),
                "allow_private": ["127.0.0.0/8"],
                "ports": [80, 443, self.port],
            },
            "politeness": own,
        }

    def config_sets(self) -> list[str]:
        """The same as `--set` values, `section.key=value`."""
        return [
            f"{section}.{key}={json.dumps(value)}"
            for section, keys in self.config().items()
            for key, value in keys.items()
        ]

    def _answer(self, request: Request) -> Reply:
        path = request.target.partition("?")[0]
        # a browser without the names
        name = (
            self._by_address[request.address] if request.host == request.address else request.host
        )
        found = self._replies.get(name, {}).get(path)
        if found is None:
            return Reply(404, [("Content-Type", "text/html; charset=utf-8")], NOT_FOUND)
        etag = dict(found.headers).get("ETag")
        if etag and request.headers.get("if-none-match") == etag:
            return Reply(304, [("ETag", etag)])
        return found

    def __enter__(self) -> SampleSite:
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.stop()


def serve(folder: str | Path = SAMPLE, port: int = 0) -> SampleSite:
    """The site of a folder, to be entered. Port 0: any that is free on all of its addresses."""
    return SampleSite(folder, port)


def _replies(folder: Path) -> dict[str, Reply]:
    """Path -> answer for every file of a host; read once, so that no request path ever meets the
    file system.
    """
    out: dict[str, Reply] = {}
    meta_file = folder / "_meta.json"
    meta = json.loads(meta_file.read_text(encoding="utf-8")) if meta_file.exists() else {}
    modified = meta.get("last_modified", {})
    for file in sorted(p for p in folder.rglob("*") if p.is_file() and p != meta_file):
        path = "/" + file.relative_to(folder).as_posix()
        body = file.read_bytes()
        headers = [
            ("Content-Type", TYPES.get(file.suffix, "application/octet-stream")),
            ("ETag", f'"{hashlib.sha256(body).hexdigest()[:16]}"'),
        ]
        if path in modified:
            headers.append(("Last-Modified", modified[path]))
        out[path] = Reply(200, headers, body)
        if file.name == "index.html":
            out[path.removesuffix("index.html")] = out[path]
    for path, (status, target) in meta.get("redirects", {}).items():
        out[path] = Reply(status, [("Location", target), ("Content-Type", "text/plain")])
    for path, status in meta.get("statuses", {}).items():
        out[path] = Reply(status, [("Content-Type", "text/html; charset=utf-8")], NOT_FOUND)
    return out
