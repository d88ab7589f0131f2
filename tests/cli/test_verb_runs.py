"""Each verb run again and again under load (bench/verb_runs.py)."""

from __future__ import annotations

import os

import pytest
from crawlkit.cli.verb_table import VERBS

from bench.verb_runs import STEPS, run_all


def test_each_verb_is_run():
    assert {text.split()[0] for text, _ in STEPS} == set(VERBS)


@pytest.mark.slow
def test_exit_codes_are_right_and_nothing_aborts():
    runs = int(os.environ.get("CRAWLKIT_VERB_RUNS", "2"))
    counts, wrong = run_all(runs, 60)
    assert not wrong and set(counts) == set(VERBS)
