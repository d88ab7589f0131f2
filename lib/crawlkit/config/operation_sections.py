"""How to run and store a crawl: maintain, alerts, control, engine, spark, storage, s3."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from crawlkit.config.section import Section, setting


class Maintain(Section):
    vacuum_hours: float = setting(
        168.0,
        "Table files no longer referenced are removed after this many hours; while a round is open,"
        " none that is younger.",
        ge=0,
    )
    orphan_hours: float = setting(
        24.0, "WARC files that no capture names are removed after this many hours.", ge=0
    )
    raw_days: float = setting(
        90.0,
        "Stored records that nothing refers to, fetch lists and part manifests are removed after"
        " this many days; 0 keeps them.",
        ge=0,
    )
    raw_share: float = setting(
        0.3, "A WARC file is written anew once so much of it may go.", ge=0, le=1
    )
    snapshot_days: float = setting(
        92.0,
        "Daily snapshots below export/urls are removed after this many days; 0 keeps them.",
        ge=0,
    )


# what `alerts.profile: large` has instead of the defaults
LARGE_ALERTS = {
    "frontier_min": 10_000,
    "error_share": 0.05,
    "error_share_critical": 0.10,
    "dns_hit_share": 0.90,
}


class Alerts(Section):
    """Thresholds of the alert rules (docs/alerts.md)."""

    profile: Literal["small", "large"] = setting(
        "small",
        "What the thresholds are made for: a crawl that ends, or one of millions of URLs that goes"
        " on. A threshold that is set counts with either.",
    )
    target_pages_per_s: float = setting(
        0.0,
        "Pages a second that the fetch stage is to reach; 0: no target, so no alert about the"
        " rate.",
        ge=0,
    )
    min_answers: int = setting(
        50, "Shares and means of a round count from so many answers on.", ge=1
    )
    frontier_max: int = setting(100_000_000, "URLs that wait, at most.", ge=0)
    frontier_min: int = setting(0, "URLs that wait, at least; 0: no alert. Large: 10000.", ge=0)
    error_share: float = setting(0.20, "Share of failed pages that warns. Large: 0.05.", ge=0, le=1)
    error_share_critical: float = setting(
        0.50, "Share of failed pages that is critical. Large: 0.1.", ge=0, le=1
    )
    throttled_share: float = setting(0.05, "Share of answers 429 or 503 that pages.", ge=0, le=1)
    dns_hit_share: float = setting(
        0.0, "Look-ups answered from the cache, at least; 0: no alert. Large: 0.9.", ge=0, le=1
    )
    duplicate_share: float = setting(
        0.30, "Share of stored pages that are copies of others, at most.", ge=0, le=1
    )
    latency_ms: float = setting(3000.0, "Mean time of an answer, at most.", gt=0)
    render_queue: int = setting(10_000, "Pages that wait to be rendered, at most.", ge=0)
    growth_bytes_per_day: float = setting(4e12, "WARC bytes of a day, at most.", gt=0)
    workers: int = setting(1, "Fetch tasks that took part in a round, at least.", ge=0)
    filter_drift: float = setting(
        0.01, "Share of keys in which the seen filter and the table differ, at most.", ge=0, le=1
    )

    @model_validator(mode="before")
    @classmethod
    def _of_profile(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("profile") == "large":
            return LARGE_ALERTS | given
        return given


class ControlApi(Section):
    """The control API (docs/api.md)."""

    token: str = setting(
        "env:CRAWLKIT_TOKEN",
        "Bearer token: env:NAME or file:PATH; at least 16 characters. Without one the API does not"
        " start.",
        pattern=r"^(env|file):.+$",
    )
    host: str = setting(
        "127.0.0.1",
        "Address to listen on. Anything but loopback needs a proxy with TLS before it.",
        min_length=1,
    )
    port: int = setting(8471, "Port to listen on; 0 picks one.", ge=0, le=65535)
    public_url: str = setting(
        "",
        "Where others reach the API, for example https://you.example/crawl: hubs of WebSub call"
        " below it, and pings of webmasters (`/indexnow`) need no token. Empty: neither.",
        pattern=r"^(https?://[^\s?#]+)?$",
    )


class EngineConfig(Section):
    name: Literal["auto", "local", "spark"] = setting(
        "auto",
        "What runs the stages: local (DuckDB and worker processes on this machine), spark, or auto:"
        " spark under spark-submit and where spark.master is set, else local.",
    )
    memory: str = setting(
        "800MB",
        "local: memory of DuckDB; what needs more goes to disk.",
        pattern=r"^[0-9]+ ?[KMGT]i?B$",
    )
    processes: int | None = setting(
        None, "local: tasks that run at the same time; null: one for each processor.", ge=1
    )


class SparkConfig(Section):
    master: str = setting(
        "local[2,4]", "Spark master; local[N,F]: plain local[N] never retries a task."
    )
    driver_memory: str = setting("2g", "Heap of the driver.", pattern=r"^[0-9]+[mg]$")
    shuffle_partitions: int = setting(2, "Partitions of joins.", ge=1)
    small_bytes: int = setting(
        128 * 2**20,
        "Inputs of at most this size, which Spark would read in one task, are computed in the"
        " driver without Spark's planning (DuckDB, within engine.memory); 0: none.",
        ge=0,
    )
    extra: dict[str, str] = setting({}, "Further Spark properties.")


class Storage(Section):
    tables: str = setting(
        "tables",
        "Folder or URI (s3a://bucket/prefix) of the Delta tables, below --data if relative.",
        pattern=r"^[^\x00]+$",
    )
    warc: str = setting(
        "warc",
        "Folder or s3://bucket/prefix of the WARC files, below --data if relative.",
        pattern=r"^[^\x00]+$",
    )
    state: str = setting(
        "state",
        "Folder or s3://bucket/prefix of the crawl's state, parts, leases and locks, below --data"
        " if relative.",
        pattern=r"^[^\x00]+$",
    )
    spool: str | None = setting(
        None,
        "Local folder of open WARC files and of what waits for the store; null: .tmp in a local"
        " WARC folder, else the system's folder for temporary files.",
    )
    min_free_bytes: int = setting(
        200 * 10**6,
        "Room that a fetch leaves on the disks of state, WARC files and spool: with less it does"
        " not start, and a running one ends with what is left deferred (disk_full).",
        ge=0,
    )
    spool_bytes: int = setting(
        100 * 10**9,
        "What a task keeps on local disk while the store does not answer; beyond it the task ends"
        " and its URLs are given back.",
        ge=0,
    )
    spool_s: float = setting(
        600.0,
        "How long a task waits for a store that does not answer before it ends and its URLs are"
        " given back.",
        ge=0,
    )


class S3(Section):
    """Access to S3 and what speaks like it.

    Credentials come from the usual AWS chain, never from here.
    """

    endpoint_url: str | None = setting(
        None, "Address of an S3-compatible store; null: AWS.", pattern=r"^https?://[^@\s]{1,500}$"
    )
    region: str | None = setting(
        None, "Region; null: as the AWS chain says.", pattern=r"^[a-z0-9-]{1,40}$"
    )
    path_style: bool = setting(
        False, "Bucket in the path, not in the host name (most S3-compatible stores)."
    )
    timeout_s: float = setting(20.0, "Deadline to connect, and of each wait for bytes.", gt=0)
    give_up_s: float = setting(30.0, "A call that fails is tried again for this long.", ge=0)
    part_bytes: int = setting(
        16 * 1024 * 1024, "Larger files are uploaded in parts of this size.", ge=5 * 1024 * 1024
    )
