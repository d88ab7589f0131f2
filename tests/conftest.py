"""One Spark session for all Spark tests; loopback only."""

from __future__ import annotations

import functools
import gc
import os
import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests import halves

# Folders and files whose tests start servers or processes, or wait for them: not part of the quick
# run, but of every `make test`.
WAITING = (
    "control/",
    "exports/",
    "adapters/lake/test_delta_crash.py",
    "adapters/lake/test_delta_s3.py",
    "adapters/net/test_dns.py",
    "adapters/net/test_engine.py",
    "adapters/net/test_guard_mutation.py",
    "adapters/net/test_proxy.py",
    "adapters/net/test_requests_engine.py",
    "adapters/net/test_site_logins.py",
    "adapters/net/test_ssrf.py",
    "adapters/net/test_tls_transport.py",
    "adapters/store/test_lease.py",
    "adapters/store/test_not_s3.py",
    "adapters/store/test_objects.py",
    "adapters/store/test_s3_objects.py",
    "adapters/store/test_spool.py",
    "cli/test_bad_input_cli.py",
    "fakeweb/test_fakeweb.py",
    "observe/test_explain.py",
    "report/test_metrics.py",
    "observe/test_single_url.py",
    "rounds/test_open.py",
    "rules/test_fuzz.py",
    "slot/test_floods.py",
    "slot/test_misbehaving.py",
    "slot/test_robots.py",
    "slot/test_run.py",
    "slot/test_slot_crash.py",
    "slot/test_slot_law.py",
    "slot/test_slot_s3.py",
    "parsing/test_child.py",
    "parsing/test_table_files.py",
    "test_api.py",
    "upkeep/test_reconcile.py",
)

# How a test's name begins that takes most of a second: not part of the quick run either, nor is one
# that measures (`within`).
MEASURING = (
    "test_attack[",
    "test_no_page_takes_",
    "test_nothing_nests_deeper_",
    "test_memory_",
    "test_hostile_",
    "test_a_million_",
    "test_real_files_share",
    "test_ordinary_pages",
    "test_fragmentation_",
    "test_the_walk_on_",
    "test_probe[dedup-P242a]",
    "test_minhash_",
    "test_equal_texts_are_linear",
    "test_thousands_of_hosts",
    "test_end_tags_",
    "test_formatting_",
    "test_a_srcset_of_",
    "test_links_of_its_pages",
    "test_article_benchmark",
    "test_a_rate_is_",
    "test_a_child_counts",
    "test_a_part_in_c_of_an_",
    "test_a_language_is_told",
    "test_gzip",
    "test_blocks_cut_",
    "test_the_verb",
    "test_time_is_linear_",
    "test_damage_keeps_",
    "test_bytes_after_a_brotli_",
    "test_all_lengths_around_blocks",
    "test_an_article",
    "test_the_part_in_c_says_",
)

LONG = ("test_kills", "test_submit")  # minutes each: make test-slow

# A file of which no test is quick by its own word.
OTHERS_ONLY = re.compile(r"^pytestmark = .*pytest\.mark\.(?:spark|slow)\b", re.MULTILINE)


settings.register_profile(
    "whole", deadline=None
)  # how long an example takes is the machine's affair: under load laws failed by it alone
settings.register_profile("quick", max_examples=25, deadline=None)


def is_quick(config):
    return config.option.markexpr == "not spark and not slow"


def pytest_configure(config):
    settings.load_profile(
        "quick" if is_quick(config) else "whole"
    )  # each law by fewer examples than in `make test`
    if is_quick(config):
        if hasattr(os, "fork") and not config.option.numprocesses:
            config.pluginmanager.register(halves)
        gc.set_threshold(100_000, 50, 100)  # thousands of short tests leave little garbage


def pytest_xdist_auto_num_workers(config):
    return (
        2 if config.option.markexpr == "not slow or ci" else 0
    )  # `make test`; the quick run forks (tests/halves.py)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """All files with Spark tests to one process, first, since they share a session; each other file
    to whichever is free.
    """
    from xdist.scheduler import LoadFileScheduling

    class BySession(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "spark" if with_spark(config.rootpath / file) else file

    config.option.loadscopereorder = (
        False  # by the number of tests: files of many tests are not the long ones
    )
    return BySession(config, log)


@functools.cache
def with_spark(path):
    return "pytest.mark.spark" in path.read_text("utf-8")


def pytest_ignore_collect(collection_path, config):
    if not is_quick(config) or collection_path.suffix != ".py":
        return None
    return (
        True
        if _is_waiting(collection_path)
        or collection_path.stem in LONG
        or OTHERS_ONLY.search(collection_path.read_text("utf-8"))
        else None
    )  # nothing of them is quick: not even imported


def pytest_unconfigure(config):
    if is_quick(config):
        gc.freeze()  # pytest looks for garbage once more, for a second


def _is_waiting(path):
    return path.as_posix().removeprefix(f"{Path(__file__).parent.as_posix()}/").startswith(WAITING)


def pytest_collection_modifyitems(items):
    for item in items:
        measures = (
            item.name.startswith(MEASURING)
            or "within" in getattr(item.obj, "__code__", _is_waiting.__code__).co_names
        )
        if (_is_waiting(item.path) or measures) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.ci)
        elif item.path.stem in LONG:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from crawlkit.config import SparkConfig
    from crawlkit.runtime.jars import s3_jar_folder
    from crawlkit.runtime.session import build_session

    from tests.servers.s3_server import KEYS

    os.environ |= (
        KEYS  # the JVM and its workers know the S3 servers of later tests from their start
    )

    session = build_session(
        SparkConfig(),
        "crawlkit tests",
        tmp_path_factory.mktemp("spark"),
        quick=True,
        s3=s3_jar_folder().is_dir(),
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def known_crawl(spark, tmp_path_factory):
    from tests.rounds.known_crawl import known

    folder = tmp_path_factory.mktemp("known")
    return known(spark, folder, folder / "crawl")
