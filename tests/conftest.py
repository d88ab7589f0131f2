"""One Spark session for all Spark tests; loopback only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from crawlkit.config import SparkConfig
from tests.known_crawl import known_crawl  # noqa: F401  (a fixture)
from tests.s3_server import KEYS


# Folders and files whose tests start servers or processes, or wait for them: not part of the quick run, but of every `make test`.
WAITING = ("control/", "exports/", "stages/test_parse", "test_one", "test_open", "test_bad_input_cli", "test_fakeweb", "test_metrics", "test_api", "rules/test_fuzz",
           *(f"adapters/test_{name}" for name in ("slot", "lease", "engine_requests", "fetcher", "dns", "objects", "not_s3", "delta_crash", "delta_s3", "guard_mutation", "proxy", "spool", "session", "floods", "misbehaving", "ssrf", "tls_transport")))

# How a test's name begins that measures time, or takes more than a second: not part of the quick run either.
MEASURING = ("test_attack[", "test_no_page_takes_", "test_nothing_nests_deeper_", "test_memory_", "test_hostile_", "test_a_million_", "test_real_files_share", "test_ordinary_pages", "test_fragmentation_",
             "test_the_walk_on_", "test_probe[dedup-P242a]", "test_minhash_articles", "test_equal_texts_are_linear", "test_thousands_of_hosts", "test_end_tags_", "test_formatting_", "test_a_srcset_of_",
             "test_links_of_its_pages", "test_article_benchmark", "test_a_rate_is_", "test_a_child_counts", "test_a_part_in_c_of_an_", "test_a_language_is_told", "test_gzip", "test_blocks_cut_")

LONG = ("test_kills", "test_submit")  # minutes each: make test-slow


settings.register_profile("whole", deadline=None)  # how long an example takes is the machine's affair: under load laws failed by it alone
settings.register_profile("quick", max_examples=25, deadline=None)


def is_quick(config):
    return config.option.markexpr == "not spark and not slow"


def pytest_configure(config):
    settings.load_profile("quick" if is_quick(config) else "whole")  # each law by fewer examples than in `make test`


def pytest_xdist_auto_num_workers(config):
    return 2 if is_quick(config) else 0  # the quick run is to take seconds; all others share one Spark session, and servers


def pytest_ignore_collect(collection_path, config):
    return True if is_quick(config) and (_is_waiting(collection_path) or collection_path.stem in LONG) else None  # nothing of them is quick: not even read


def _is_waiting(path):
    return path.as_posix().removeprefix(f"{Path(__file__).parent.as_posix()}/").startswith(WAITING)


def pytest_collection_modifyitems(items):
    for item in items:
        if (_is_waiting(item.path) or item.name.startswith(MEASURING)) and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.ci)
        elif item.path.stem in LONG:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from crawlkit.jars import s3_jar_folder
    from crawlkit.spark import build_session

    os.environ |= KEYS  # the JVM and its workers know the S3 servers of later tests from their start

    session = build_session(SparkConfig(), "crawlkit tests", tmp_path_factory.mktemp("spark"), quick=True, s3=s3_jar_folder().is_dir())
    yield session
    session.stop()
