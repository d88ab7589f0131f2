"""Crawls as processes of their own, to be killed and compared: the `crawlkit` command on a folder,
and what its tables hold.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawlkit.tables import TABLES
from deltalake import DeltaTable

from tests.fakeweb import EPOCH, FakeWeb, Server, build

ENGINE = "local"  # of the commands that tests start; the fixture `on` sets it
ROOT = Path(__file__).resolve().parents[2]
# a small crawl that reaches its end (nothing due at a fixed time) after three rounds, with leases
# that a killed slot gives up soon
SHORT = {
    "scope.max_depth": 1,
    "fetch.max_redirects": 1,
    "lease.ttl_s": 8,
    "lease.renew_s": 1,
    "lease.margin_s": 1,
    "warc.roll_s": 1,
    "storage.min_free_bytes": 0,
}
# what must be the same however often a crawl was killed: not attempts, file names, offsets, clock
# times and measured delays
FIXED = {
    "crawldb": (
        "url url_key host domain host_bucket state priority_class boost depth redirects parent_key"
        " source first_seen interval_s last_status error_type retries n_fetch n_change history"
        " body_sha256 text_sha256 payload_digest simhash etag last_modified content_type"
        " content_length outlinks flags"
    ),
    "fetchlist": "round_id kind url_key url depth",
    "captures": (
        "round_id kind url_key url host outcome reason status content_type body_bytes truncated"
        " redirect_to payload_digest etag last_modified cache_control robots_line is_outcome"
    ),
    "pages": (
        "round_id url_key url host kind media_type charset title language robots_meta noindex"
        " nofollow canonical text main_text body_sha256 clean_sha256 text_sha256 simhash minhash"
        " links flags"
    ),
    "links": "round_id n from_key from_url to_key to_url to_host anchor rel kind refused",
    "contents": "round_id round_no url_key url text_sha256",
    "similar": "round_id a_text b_text method distance jaccard merged",
    "duplicates": "url_key url cluster_id canonical_url method evidence_url distance jaccard size",
    "ranks": "url_key inlinks inlink_hosts",
    "hostdb": "host domain host_bucket class pages blacklisted",
}


def steady_web(seed: int = 7, scale: float = 0.1) -> FakeWeb:
    """The synthetic web without pages whose answer depends on how often they were asked: a kill may
    ask twice.
    """
    web = build(seed, scale)
    for page in web.pages.values():
        page.recovers_after = None
    return web


def settings(web: FakeWeb, server: Server, folder: Path, **changes: Any) -> Path:
    """A configuration file for a crawl of the web; `changes` are keys `section.key`."""
    import yaml

    tree = web.config(server.port)
    for key, value in {**SHORT, "engine.name": ENGINE, **changes}.items():
        section, name = key.split(".")
        tree.setdefault(section, {})[name] = value
    path = folder / "crawl.yaml"
    path.write_text(yaml.safe_dump(tree))
    return path


def command(*args: object) -> list[str]:
    return [sys.executable, "-c", "from crawlkit.cli.main import main; main()", *map(str, args)]


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def said(self) -> dict[str, Any]:
        """The JSON answer on standard output."""
        return json.loads(self.out.strip().splitlines()[-1])


def environment(**env: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "lib"), "PYTHONDONTWRITEBYTECODE": "1"} | env


def run(
    *args: object,
    env: dict[str, str] | None = None,
    timeout: float = 300.0,
    cwd: Path | None = None,
    stdin: str | None = None,
) -> Done:
    """`crawlkit ARGS` to its end."""
    done = subprocess.run(
        command(*args),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        input=stdin,
        env=environment(**env or {}),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def crawl_args(web: FakeWeb, data: Path | str, config: Path, rounds: int = 8) -> list[object]:
    """Crawl the web at a fixed time until nothing is due (three rounds and an empty one)."""
    return [
        "crawl",
        *web.seeds,
        "--data",
        data,
        "--config",
        config,
        "--rounds",
        rounds,
        "--now",
        f"{EPOCH:.0f}",
        "--json",
    ]


def table_place(data: Path | str, table: str) -> str:
    """A table of a crawl as delta-rs names it; in S3 it finds the server and the keys in the
    environment.
    """
    return f"{data}/tables/{table}".replace("s3a://", "s3://", 1)


def rows(
    data: Path | str, table: str, columns: list[str] | None = None, version: int | None = None
) -> Counter[str]:
    """The table's rows (of a version) as a multiset of JSON texts, read without a JVM."""
    place = table_place(data, table)
    if not DeltaTable.is_deltatable(place):
        return Counter()
    got = (
        DeltaTable(place, version=version)
        .to_pyarrow_dataset()
        .to_table(columns=columns)
        .to_pylist()
    )
    return Counter(
        json.dumps(r, sort_keys=True, default=lambda v: v.hex() if isinstance(v, bytes) else str(v))
        for r in got
    )


def everything(data: Path | str) -> dict[str, Counter[str]]:
    """All tables, all columns."""
    return {name: rows(data, name) for name in TABLES}


def facts(
    data: Path | str, versions: Mapping[str, int | None] = dict.fromkeys(FIXED)
) -> dict[str, Counter[str]]:
    """The fixed columns of tables in these versions, without records beside the outcomes (a killed
    attempt may leave one more).
    """
    found = {
        name: rows(data, name, FIXED[name].split(), version) for name, version in versions.items()
    }
    if "captures" in found:
        found["captures"] = Counter(
            {r: n for r, n in found["captures"].items() if json.loads(r)["is_outcome"]}
        )
    return found


def differences(a: dict[str, Counter[str]], b: dict[str, Counter[str]]) -> list[str]:
    """Rows that only one side has, at most five a table."""
    out = []
    for name in a:
        for side, rows_ in (("-", a[name] - b[name]), ("+", b[name] - a[name])):
            out += [f"{name} {side} {n} x {r[:600]}" for r, n in list(rows_.items())[:5]]
    return out
