"""What several files of whole rounds need, made once a file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """What `make zip` makes, in a copy of the checkout."""
    from tests.rounds.crawlproc import ROOT

    copy = tmp_path_factory.mktemp("checkout")
    for name in ("lib", "jobs", "Makefile"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    subprocess.run(
        ["make", "zip", f"PYTHON={sys.executable}"], cwd=copy, check=True, capture_output=True
    )
    shutil.rmtree(copy / "lib")
    return copy


@pytest.fixture(scope="module")
def on_a_folder(on, tmp_path_factory) -> dict:
    """What the tables hold after the round on a local folder, and in each of their versions."""
    from tests.fakeweb import EPOCH
    from tests.rounds.crawlproc import FIXED, facts
    from tests.rounds.s3_world import go
    from tests.rounds.test_kills import WEB, World, versions

    with World(tmp_path_factory.mktemp("folder"), None) as w:
        job = w.job(on)
        job.run("inject", job.crawl.open_round(EPOCH), lines=sorted(WEB.pages))
        go(job)
        return facts(w.data) | {"versions": {name: versions(w.data, name) for name in FIXED}}
