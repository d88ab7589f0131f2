"""Seed lines that are refused: told with their line, never with a password."""

import pytest
from crawlkit.rules.url.canonical import DEFAULT_POLICY
from crawlkit.stages.inject import read_lines


@pytest.mark.parametrize(
    "line",
    [
        "ftp://me:hush@h.example/x",
        "http://me:hush@h.example:99999/",
        "http://me:hush@@h.example:0x/",
        "https://hush@[::xyz]/",
        "http://me:hush@h.example/\tkind=hush-hush",
    ],
)
def test_no_reject_keeps_what_stands_before_the_at_sign(line):
    rows, rejects, counts = read_lines([line], now=0.0, buckets=8, policy=DEFAULT_POLICY)
    assert (rows, counts["refused"]) == ([], 1)
    assert "me:" not in str(rejects) and "hush@" not in str(rejects)
    assert rejects[0]["detail"].startswith("line 1: ")
