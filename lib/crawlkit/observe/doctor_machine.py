"""Checks of `crawlkit doctor`: settings, name servers, folders and limits of this machine."""

from __future__ import annotations

import asyncio
import re
import resource
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dns.resolver

from crawlkit.adapters.net.dns import NameServers
from crawlkit.config import PLACEHOLDER_INFO_URL, Config
from crawlkit.crawl.state import Crawl, CrawlError, Place
from crawlkit.observe.finding import Finding
from crawlkit.outcomes import Reason

OPEN_FILES_SPARE = 256
ROOM_BYTES = 1 << 30
DNS_NAME = "crawlkit-doctor.invalid"  # RFC 6761, 6.4: a name server that works denies it


def check_spark_settings(cfg: Config) -> Iterator[Finding]:
    """Settings of Spark that the tables and the fetch stage rely on."""
    zone = cfg.spark.extra.get("spark.sql.session.timeZone", "UTC")
    yield Finding(
        "time zone",
        zone in ("UTC", "Etc/UTC", "Z", "GMT"),
        f"spark.sql.session.timeZone = {zone}",
        "take spark.sql.session.timeZone out of spark.extra: tables hold UTC",
    )
    on = cfg.spark.extra.get("spark.speculation", "false").lower() == "true"
    yield Finding(
        "speculation",
        not on,
        f"spark.speculation = {str(on).lower()}",
        "take spark.speculation out of spark.extra: a copied fetch task would request pages twice",
    )
    retries = re.fullmatch(r"local\[[^,\]]*\]|local", cfg.spark.master) is None
    yield Finding(
        "spark.master",
        retries,
        cfg.spark.master,
        "write local[N,4]: plain local[N] never retries a task",
    )


def check_agent(cfg: Config) -> Iterator[Finding]:
    """Whether sites can reach the operator."""
    yield Finding(
        "contact address",
        cfg.agent.info_url != PLACEHOLDER_INFO_URL,
        f"agent.info_url = {cfg.agent.info_url}",
        "set agent.info_url to a page that explains your crawler and how to opt out; the"
        " placeholder may only speak to loopback",
    )


def check_name_servers(cfg: Config) -> Iterator[Finding]:
    """Whether each name server that fetch tasks use answers."""
    servers = list(cfg.fetch.resolvers)
    if not servers and "*" in cfg.fetch.connect_to:
        yield Finding("name servers", True, "not needed: fetch.connect_to covers every host")
        return
    servers = servers or _system_servers()
    if not servers:
        fix = "set fetch.resolvers, or give the machine name servers (/etc/resolv.conf)"
        yield Finding("name servers", False, "the system names none", fix)
    for server in servers:
        error = asyncio.run(_query_error(server))
        yield Finding(
            "name servers",
            error is None,
            f"{server}: {'answers' if error is None else error}",
            "correct fetch.resolvers, or open the way to port 53 of this server",
        )


def _system_servers() -> list[str]:
    try:
        return list(map(str, dns.resolver.Resolver().nameservers))
    except dns.exception.DNSException:
        return []


async def _query_error(server: str) -> str | None:
    """Why a name server does not answer; None if it does."""
    query = NameServers([server])
    try:
        answer = await query(DNS_NAME)
    finally:
        await query.close()
    return str(answer.detail) if answer.error is Reason.DNS_FAIL else None


def check_folders(data: Place, cfg: Config) -> Iterator[Finding]:
    """Whether the crawl's folders on this machine can be written to."""
    try:
        crawl = Crawl(data, cfg)
        if "://" not in str(crawl.objects.root):
            crawl.check()
    except CrawlError as e:
        yield Finding("crawl folder", False, str(e), "see the message")
        return
    places = {
        "--data": str(crawl.data),
        "storage.tables": crawl.tables_root,
        "storage.warc": crawl.warc_place,
        "storage.state": str(crawl.objects.root),
        "storage.spool": cfg.storage.spool or tempfile.gettempdir(),
    }
    for name, place in places.items():
        if "://" not in place:
            error = _unwritable(Path(place))
            yield Finding(
                f"write access {name}",
                error is None,
                f"{place}{f': {error}' if error else ''}",
                f"give this user write access to {place}, or choose another folder",
            )


def _unwritable(folder: Path) -> str | None:
    """Why a folder, or the nearest that exists above it, cannot be written to."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as e:
        return e.strerror or str(e)


def check_disk(data: Place, cfg: Config) -> Iterator[Finding]:
    """Whether the disk of the local folders has room for a round's files."""
    folder = Crawl(data, cfg).scratch
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    need = 2 * cfg.warc.roll_bytes * cfg.fetch.slots + ROOM_BYTES
    yield Finding(
        "disk room",
        free >= need,
        f"{free / 1e9:.1f} GB free at {folder}",
        f"free {need / 1e9:.1f} GB at least: two open WARC files a slot and room for tables",
    )


def check_open_files(cfg: Config) -> Iterator[Finding]:
    """Whether a fetch task may open all its connections."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    need = 2 * cfg.fetch.in_flight + OPEN_FILES_SPARE
    yield Finding(
        "open files",
        limit in (-1, resource.RLIM_INFINITY) or limit >= need,
        f"limit {limit}",
        f"raise it to {need} at least (`ulimit -n {need}`), or lower fetch.in_flight",
    )
