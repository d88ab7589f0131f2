"""The summary at the end of a crawl says what a person asks: how much, what is broken, what to
set.
"""

from __future__ import annotations

import pytest

from tests.cli.call import call

pytestmark = pytest.mark.waits


def test_requests_pages_and_broken_links(tmp_path):
    done = call("crawl", "--sample", "--data", tmp_path, "--rounds", 2)
    line = next(line for line in done.out.splitlines() if " requests in " in line)
    logged = call("log", "--data", tmp_path).out.splitlines()
    pages = [row.split(" ") for row in logged if " page:" in row]
    fetched = sum(columns[8] == "fetched" for columns in pages)
    broken = sum(columns[1] in ("404", "410") for columns in pages)
    assert broken > 0
    assert line.startswith(f"{len(logged)} requests in ")
    assert f": {fetched} pages fetched, {broken} broken links, " in line


@pytest.mark.parametrize(
    "url, reason, key",
    [
        ("http://127.0.0.1:9/", "port_forbidden", "fetch.ports"),
        ("http://127.0.0.1/", "address_forbidden", "fetch.allow_private"),
    ],
)
def test_a_refusal_of_our_own_names_the_setting(tmp_path, url, reason, key):
    done = call("crawl", url, "--data", tmp_path, "--rounds", 1)
    assert f"hint: {reason}: {key}" in done.out
    assert f"hint: {reason}: {key}" in call("errors", "--data", tmp_path).out
    assert f"hint: {key}" in call("fetch-one", url).out
