"""The state of a crawl beside its tables: rounds, bucket claims (guard C), stage marks, locks.

All of it are small JSON objects below `state/` (or where storage.state says), changed under the
commit lock W. `crawl.json` holds the bucket count, the open rounds with their claims, and the next
round's number; each round has a folder with a mark for each finished stage and what a stage pinned
before it read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crawlkit.adapters.lake.delta import Tables
from crawlkit.adapters.store.flock import FileLock, LockHeld
from crawlkit.adapters.store.lease import LeaseLock
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.adapters.store.spool_folder import spool_folder
from crawlkit.config import Config, ConfigError
from crawlkit.config.layers import recorded
from crawlkit.engine.frame import Engine
from crawlkit.model import Round

LOCK_WAIT_S = 600.0
COMMANDS_WAIT_S = 30.0
ROUND_ID = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.-]{1,80}")
Place = Path | str  # of a crawl: a folder, or s3://bucket/prefix (s3a:// too)


class CrawlError(RuntimeError):
    """The request cannot be met in the crawl's state; the message says why and what to do."""

    exit_code = 2


def audited_rules(cfg: Config) -> dict[str, Any]:
    """The settings by which requests are judged afterwards: agent, bytes of robots.txt that count,
    what its 429 means, floors of domain and address (s).
    """
    return {
        "agent": cfg.agent.name,
        "robots_max_bytes": cfg.robots.max_bytes,
        "robots_on_429": cfg.robots.on_429,
        "domain_delay_s": cfg.politeness.domain_delay_s,
        "ip_delay_s": cfg.politeness.ip_delay_s,
    }


class Crawl:
    """A crawl's place and its state. Cheap to make; starts nothing."""

    def __init__(self, data: Place, cfg: Config) -> None:
        """Raises ConfigError for a place that is none."""
        self.cfg = cfg
        self.data: Place = (
            str(open_objects(str(data), cfg.s3).root)
            if "://" in str(data)
            else Path(data).absolute()
        )  # Spark and its workers have other ideas of the current folder
        self.objects = open_objects(_below(self.data, cfg.storage.state), cfg.s3)
        tables = _below(self.data, cfg.storage.tables)
        self.tables_root = str(open_objects(tables, cfg.s3).root) if "://" in tables else tables
        self.warc_place = _below(self.data, cfg.storage.warc)
        self.warc = open_objects(self.warc_place, cfg.s3)
        self.report = _below(self.data, "report")
        self.lock = self._lock("commit.lock", f"the commit lock of {data}", LOCK_WAIT_S)

    @property
    def scratch(self) -> Path:
        """Local folder for Spark's own files."""
        return (
            spool_folder(self.cfg, self.data) if isinstance(self.data, str) else self.data / "state"
        )

    def tables(self, engine: Callable[[], Engine], guard: Callable[[], None]) -> Tables:
        """The crawl's tables; `guard` is called just before each commit."""
        return Tables(
            engine, self.tables_root, guard, self.cfg.s3, spool_folder(self.cfg, self.tables_root)
        )

    def plain_tables(self, lock: FileLock | LeaseLock | None = None) -> Tables:
        """The tables without an engine; a write needs `lock` (default: the commit lock)."""

        def no_engine() -> Engine:
            raise RuntimeError("no engine here")

        return self.tables(no_engine, (lock or self.lock).check)

    def commands_lock(self) -> FileLock | LeaseLock:
        """Held while an operator's command is done; never for longer than that."""
        return self._lock(
            "control/commands.lock", f"the lock of commands of {self.data}", COMMANDS_WAIT_S
        )

    def hubs_lock(self) -> FileLock | LeaseLock:
        """Held while hubs of WebSub are asked: one request at a time."""
        return self._lock("control/hubs.lock", f"the lock of requests to hubs of {self.data}")

    def _lock(self, key: str, what: str, wait_s: float = 0.0) -> FileLock | LeaseLock:
        if isinstance(self.objects, LocalObjects):
            return FileLock(self.objects.root / key, what, wait_s)
        return LeaseLock(self.objects, key, what, self.cfg.lease, wait_s)

    # -- crawl.json --------------------------------------------------------------------
    def read_state(self) -> tuple[dict[str, Any], str | None]:
        """`crawl.json` and its etag (None: not there yet). Raises CrawlError."""
        try:
            raw, etag = self.objects.get("crawl.json")
        except ObjectMissing:
            return {"buckets": self.cfg.frontier.buckets, "next_no": 1, "open": {}}, None
        try:
            state = json.loads(raw)
            if not isinstance(state["open"], dict) or not isinstance(state["next_no"], int):
                raise TypeError("open")
        except (ValueError, KeyError, TypeError):
            raise CrawlError(
                f"{self.objects.root}/crawl.json is damaged: restore it from a copy"
            ) from None
        if "rebuilding" in state:
            raise CrawlError(
                f"{self.data} is being rebuilt from its WARC files: finish it with `crawlkit"
                " rebuild --from-warc`"
            )
        if "rebucket_to" in state:
            raise CrawlError(
                f"{self.data} is on its way from {state['buckets']} to {state['rebucket_to']} host"
                f" buckets: finish it with `crawlkit rebucket {state['rebucket_to']}`"
            )
        if state["buckets"] != self.cfg.frontier.buckets:
            raise CrawlError(
                f"{self.data} has {state['buckets']} host buckets, the configuration says"
                f" frontier.buckets = {self.cfg.frontier.buckets}: set it to {state['buckets']}, or"
                " change the tables with `crawlkit rebucket`"
            )
        return state, etag

    def write_state(self, state: dict[str, Any], etag: str | None) -> None:
        """Replace `crawl.json` as it was read. The caller holds W. Raises LockHeld."""
        self.lock.check()
        if (
            self.objects.compare_and_swap(
                "crawl.json", json.dumps(state, indent=1, sort_keys=True).encode(), etag
            )
            is None
        ):
            raise LockHeld(
                f"{self.objects.root}/crawl.json was changed by a process without the commit lock"
            )

    def check(self) -> None:
        """Raises CrawlError if the folder is not usable with this configuration."""
        for place in (
            Path(p)
            for p in (self.data, self.objects.root, self.tables_root, self.warc_place)
            if "://" not in str(p)
        ):
            if place.exists() and not place.is_dir():
                raise CrawlError(f"{place} is not a folder: move it away, or give another --data")
        self.read_state()

    def known_tables(self) -> list[str]:
        """Tables that have been written: they must be there. Raises CrawlError."""
        try:
            names: list[str] = self._read_kept("tables.json")
            return names
        except ObjectMissing:
            return []

    def set_known_tables(self, names: list[str]) -> None:
        """Keep the names of tables that have been written."""
        self.objects.put("tables.json", json.dumps(sorted(names)).encode())

    def put_round(self, round_: Round) -> None:
        """Write a round's own object."""
        self.objects.put(f"rounds/{round_.id}/round.json", json.dumps(asdict(round_)).encode())

    # -- rounds ------------------------------------------------------------------------
    def open_rounds(self) -> list[Round]:
        """Rounds that are neither closed nor abandoned, oldest first."""
        return sorted((self.round(r) for r in self.read_state()[0]["open"]), key=lambda r: r.no)

    def round(self, round_id: str) -> Round:
        """A round by name. Raises CrawlError."""
        try:
            if not ROUND_ID.fullmatch(round_id):
                raise ObjectMissing(round_id)
            return Round(**json.loads(self.objects.get(f"rounds/{round_id}/round.json")[0]))
        except ObjectMissing:
            raise CrawlError(
                f"no round {round_id!r} in {self.data}; known:"
                f" {', '.join(self.round_ids()) or 'none'}"
            ) from None
        except (ValueError, TypeError):
            raise CrawlError(
                f"{self.objects.root}/rounds/{round_id}/round.json is damaged: restore it, or"
                " remove that folder to give the round up"
            ) from None

    def round_ids(self) -> list[str]:
        """Names of all rounds, sorted."""
        return sorted(
            {k.split("/")[1] for k in self.objects.list("rounds/") if k.endswith("/round.json")}
        )

    def open_round(
        self,
        now: float,
        round_id: str | None = None,
        seed: int | None = None,
        imported: bool = False,
    ) -> Round:
        """A new round, or the round of that name as it is. Raises CrawlError for a bad name."""
        if round_id is not None and not ROUND_ID.fullmatch(round_id):
            raise CrawlError(f"round id {round_id!r:.100}: use letters, digits and _ . -")
        with self.lock:
            state, etag = self.read_state()
            if round_id is not None and f"rounds/{round_id}/round.json" in self.objects.list(
                f"rounds/{round_id}/"
            ):
                return self.round(round_id)
            no = state["next_no"]
            round_id = round_id or f"r{no:06d}"
            row = Round(
                round_id,
                no,
                round(now, 3),
                no if seed is None else seed,
                self.cfg.digest(),
                time.time(),
                rules=audited_rules(self.cfg),
                imported=imported,
            )
            state["next_no"] = no + 1
            state["open"][round_id] = []
            self.write_state(state, etag)  # a name without its file is swept up by the next open
            settings = json.dumps(recorded(self.cfg), sort_keys=True, default=str)
            self.objects.put(f"rounds/{round_id}/settings.json", settings.encode())
            self.objects.put(f"rounds/{round_id}/round.json", json.dumps(asdict(row)).encode())
            return row

    def claims(self) -> dict[int, str]:
        """Bucket -> round that has claimed it (guard C)."""
        return {b: r for r, buckets in self.read_state()[0]["open"].items() for b in buckets}

    def claim(self, round_: Round, buckets: list[int]) -> None:
        """Give the buckets to an open round. The caller holds W.

        Raises CrawlError if one is taken.
        """
        state, etag = self.read_state()
        if round_.id not in state["open"]:
            raise CrawlError(f"round {round_.id} is not open")
        taken = {b for r, bs in state["open"].items() if r != round_.id for b in bs} & set(buckets)
        if taken:
            raise CrawlError(f"buckets {sorted(taken)} are claimed by another round")
        state["open"][round_.id] = buckets
        self.write_state(state, etag)
        round_.buckets = buckets
        self.objects.put(f"rounds/{round_.id}/round.json", json.dumps(asdict(round_)).encode())

    def close(self, round_: Round, state_name: str = "closed") -> None:
        """Free the claims. Repeating it changes nothing."""
        with self.lock:
            if round_.state == "open":
                round_.state, round_.closed_at = state_name, time.time()
                self.objects.put(
                    f"rounds/{round_.id}/round.json", json.dumps(asdict(round_)).encode()
                )
            state, etag = self.read_state()
            if state["open"].pop(round_.id, None) is not None:
                self.write_state(state, etag)

    def driver_lock(self, round_: Round, region: str | None = None) -> FileLock | LeaseLock:
        """Held while one process drives the round through its stages, or fetches a region of it."""
        if region is not None:
            return self._lock(
                f"rounds/{round_.id}/driver-{region}.lock", f"region {region} of round {round_.id}"
            )
        return self._lock(f"rounds/{round_.id}/driver.lock", f"round {round_.id}")

    def repair(self) -> None:
        """Finish what a killed process left half done in `crawl.json` (a name without its file, a
        closed round still listed).
        """
        with self.lock:
            state, etag = self.read_state()
            good = {}
            for round_id, buckets in state["open"].items():
                try:
                    if self.round(round_id).state == "open":
                        good[round_id] = buckets
                except CrawlError:
                    continue
            if good != state["open"]:
                state["open"] = good
                self.write_state(state, etag)

    # -- stage marks -------------------------------------------------------------------
    def mark(self, round_: Round, stage: str) -> dict[str, Any] | None:
        """What a finished stage reported; None if it has not finished."""
        try:
            mark: dict[str, Any] = self._read_kept(f"rounds/{round_.id}/{stage}.json")
            return mark
        except ObjectMissing:
            return None

    def set_mark(self, round_: Round, stage: str, report: dict[str, Any]) -> None:
        """Keep what a finished stage reports; with it the stage is not run again."""
        self.objects.put(
            f"rounds/{round_.id}/{stage}.json", json.dumps(report, sort_keys=True).encode()
        )

    def pin(self, round_: Round, name: str, value: Any) -> Any:
        """The value pinned under this name: the first caller's."""
        key = f"rounds/{round_.id}/{name}.pin.json"
        self.objects.put_if_absent(key, json.dumps(value).encode())
        return self._read_kept(key)

    def _read_kept(self, key: str) -> Any:
        """Raises ObjectMissing, CrawlError."""
        try:
            return json.loads(self.objects.get(key)[0])
        except ValueError:
            raise CrawlError(
                f"{self.objects.root}/{key} is damaged: restore it, or remove it and run the stage"
                " again"
            ) from None


def find_crawl(data: Place, cfg: Config) -> Crawl:
    """The crawl of a folder. Raises ConfigError if there is none, CrawlError."""
    crawl = Crawl(data, cfg)
    if "://" not in str(crawl.objects.root) and not Path(crawl.objects.root).is_dir():
        raise ConfigError(f"--data {data}: no crawl there; run `crawlkit crawl` first")
    crawl.check()
    return crawl


def _below(data: Place, place: str) -> str:
    if "://" in place or place.startswith("/"):
        return place
    return f"{data}/{place.strip('/')}" if isinstance(data, str) else str(data / place)
