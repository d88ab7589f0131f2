"""A web of real HTML that nobody here wrote: documentation packages of Debian and article pages,
served by nginx on loopback.

Each package (each language of one that is translated) and each article has a host name and an
address of its own. `apt-get install` the packages of PACKAGES; the articles are those of the shared
suites (`CRAWLKIT_SHARED`).
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.nginx import _free_ports, configuration, running

PACKAGES = "python3-doc postgresql-doc git-doc debian-reference-en debian-handbook openjdk-17-doc"
ARTICLES = "suites/articles/articles_half.tar.gz"
SHARED = Path(
    os.environ.get("CRAWLKIT_SHARED") or Path(__file__).resolve().parents[1] / "../shared"
)
_FOLDERS = (
    ("python", "/usr/share/doc/python3*/html"),
    ("postgresql", "/usr/share/doc/postgresql-doc-*/html"),
    ("git", "/usr/share/doc/git-doc"),
    ("reference", "/usr/share/debian-reference"),
    ("handbook", "/usr/share/doc/debian-handbook/html/*"),
    ("java", "/usr/share/doc/openjdk-17-*/api"),
)

_SERVERS = """
  types {{
    text/html html htm;
    text/plain txt;
    text/css css;
    application/javascript js;
    image/png png;
  }}
  default_type application/octet-stream;
  keepalive_timeout 300s;
  server {{
    {listen}
    location = /robots.txt {{
      default_type text/plain;
      return 200 "User-agent: *\\nDisallow: /private/\\n";
    }}
    location / {{ root {folder}/html/$host; index index.html; }}
  }}
"""


class PagesMissing(RuntimeError):
    """The packages or the articles are not on this machine; the message says how to get them."""


@dataclass(frozen=True)
class RealWeb:
    """hosts: name -> address. seeds: the first page of each host.

    articles: their URLs, of which no link on the same host leads anywhere.

    files and total_bytes count the HTML files and their bytes; bodies: SHA-256 (hex) of the
    distinct ones.
    """

    port: int
    hosts: dict[str, str]
    seeds: list[str]
    articles: list[str]
    files: int
    bodies: frozenset[str]
    total_bytes: int

    def config(self, **sections: dict[str, Any]) -> dict[str, Any]:
        """The settings of a crawl of this web without delays; `sections` are added."""
        documented = [h for h in self.hosts if not h.startswith("article-")]
        tree: dict[str, Any] = {
            "scope": {"hosts": documented, "prefixes": self.articles},
            "fetch": {
                "connect_to": {h: f"{a}:{self.port}" for h, a in self.hosts.items()},
                "allow_private": ["127.0.0.0/8"],
                "ports": [80, 443, self.port],
            },
            "politeness": {"delay_s": 0.0, "domain_delay_s": 0.0, "ip_delay_s": 0.0},
            "round": {"urls_per_host": 100_000},
        }
        for name, keys in sections.items():
            tree[name] = tree.get(name, {}) | keys
        return tree


@contextlib.contextmanager
def serve(log: Path | None = None) -> Iterator[RealWeb]:
    """The web, for as long as the context is open.

    log: nginx's log, one request URI with status and bytes a line. Raises PagesMissing.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "html").mkdir()
        starts = {**_documentation(folder / "html"), **_articles(folder / "html")}
        hosts = {host: f"127.88.0.{n + 1}" for n, host in enumerate(starts)}
        port = _free_ports(1)[0]
        log_lines = (
            f"log_format line '$host $request_uri $status $body_bytes_sent'; access_log {log} line;"
            if log
            else "access_log off;"
        )
        conf = configuration(
            folder,
            log_lines,
            _SERVERS.format(
                folder=folder, listen=" ".join(f"listen {a}:{port};" for a in hosts.values())
            ),
        )
        bodies, total, files = (
            set(),
            0,
            [f for host in starts for f in (folder / "html" / host).rglob("*.html")],
        )
        for file in files:
            body = file.read_bytes()
            total += len(body)
            bodies.add(hashlib.sha256(body).hexdigest())
        seeds = [f"http://{host}:{port}/{start}" for host, start in starts.items()]
        with running(folder, conf, "127.88.0.1", port):
            yield RealWeb(
                port,
                hosts,
                seeds,
                [s for s in seeds if "//article-" in s],
                len(files),
                frozenset(bodies),
                total,
            )


def _documentation(root: Path) -> dict[str, str]:
    """Links the packages' folders below `root`; host -> path of its first page."""
    starts: dict[str, str] = {}
    for kind, pattern in _FOLDERS:
        found = sorted(
            p
            for p in Path("/").glob(pattern.lstrip("/"))
            if p.is_dir() and not p.parent.is_symlink()
        )
        for place in found if pattern.endswith("*") else found[-1:]:
            first = next(
                (n for n in ("index.html", "git.html", "index.en.html") if (place / n).is_file()),
                None,
            )
            if first is not None:
                host = (
                    f"{kind}-{place.name.lower()}.example"
                    if pattern.endswith("*")
                    else f"{kind}.example"
                )
                (root / host).symlink_to(place.resolve())
                starts[host] = "" if first == "index.html" else first
    if lacks := [kind for kind, _ in _FOLDERS if not any(h.startswith(kind) for h in starts)]:
        raise PagesMissing(f"no pages of {', '.join(lacks)}: apt-get install {PACKAGES}")
    return starts


def _articles(root: Path) -> dict[str, str]:
    """Unpacks the articles below `root`; host -> path of its page."""
    archive = SHARED / ARTICLES
    if not archive.exists():
        raise PagesMissing(f"{ARTICLES} is not in {SHARED}: set CRAWLKIT_SHARED")
    starts: dict[str, str] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".html.gz"):
                host = f"article-{len(starts)}.example"
                (root / host).mkdir()
                (root / host / "article.html").write_bytes(
                    gzip.decompress(tar.extractfile(member).read())
                )  # type: ignore[union-attr]
                starts[host] = "article.html"
    return starts
