"""Every row of every topic's probes through one adapter a topic: `pytest tests/conformance --probes
DIR`.

A row that does not hold is listed in KNOWN with its reason; a listed row that holds is an error, so
it must be struck off.
"""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import resource
import threading
import time
from pathlib import Path

import pytest
from crawlkit.config import ConfigError
from crawlkit.outcomes import Refused

KNOWN: dict[str, str] = {}
STAGES = ("dedup",)  # topics whose rows run a stage each
WAITING = {"soft404": "K3: soft-404 detection", "traps": "K2: shapes over a host's history"}
ENDINGS = ("_not_contains", "_contains", "_subset_of", "_prefix_of", "_min", "_max", "_any", "_not")


def rows(folder: Path):
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            if line.strip():
                yield json.loads(line)


def pytest_generate_tests(metafunc):
    if "probe" not in metafunc.fixturenames:
        return
    given = metafunc.config.getoption("--probes", default=None)
    from tests.shared_data import ROOT

    folder = Path(given) if given else ROOT / "probes"
    found = list(rows(folder)) if folder.is_dir() else []
    if not found:
        metafunc.parametrize(
            "probe,folder",
            [
                pytest.param(
                    None,
                    None,
                    marks=pytest.mark.skip(
                        reason=(
                            f"NO PROBES in {folder}: give --probes DIR or put shared/ beside the"
                            " checkout"
                        )
                    ),
                )
            ],
        )
        return
    params = []
    for row in found:
        marks = []
        if row["topic"] in WAITING:
            marks = [pytest.mark.skip(reason=f"waits for {WAITING[row['topic']]}")]
        elif row["id"] in KNOWN:
            marks = [pytest.mark.xfail(strict=True, reason=KNOWN[row["id"]])]
        elif row["topic"] in STAGES:
            marks = [pytest.mark.waits]
        params.append(pytest.param(row, folder, id=f"{row['topic']}-{row['id']}", marks=marks))
    metafunc.parametrize("probe,folder", params)


def holds(key: str, want: object, got: dict) -> bool:
    """One key of `expect` against the answer (probes/README.md, "Reading a row")."""
    if key == "any_of":
        return any(all(holds(k, v, got) for k, v in option.items()) for option in want)
    if key in got or not key.endswith(ENDINGS):
        return same(want, got.get(key))
    ending = next(e for e in ENDINGS if key.endswith(e))
    value = got.get(key.removesuffix(ending))
    wanted = want if isinstance(want, list) else [want]
    match ending:
        case "_min":
            return value is not None and value >= want
        case "_max":
            return value is not None and value <= want
        case "_contains":
            return value is not None and all(w in value for w in wanted)
        case "_not_contains":
            return value is None or not any(w in value for w in wanted)
        case "_any":
            return value in wanted or (
                isinstance(value, list | tuple) and any(v in wanted for v in value)
            )
        case "_not":
            return value != want
        case "_subset_of":
            return value is not None and all(v in want for v in value)
        case _:
            return value is not None and want[: len(value)] == value


def same(want: object, got: object) -> bool:
    if isinstance(want, bool) or want is None:
        return (got or False) == want if want is False else got == want
    if isinstance(want, float | int) and isinstance(got, float | int):
        return abs(want - got) < 1e-6
    if isinstance(want, list) and isinstance(got, tuple | list):
        return len(want) == len(got) and all(same(w, g) for w, g in zip(want, got, strict=True))
    if isinstance(want, dict) and isinstance(got, dict):
        return all(same(v, got.get(k)) for k, v in want.items())
    return want == got


def with_files(given: dict, folder: Path) -> dict:
    """The row with the bytes of each `X_file` as `X_b64` too (README, "Reading a row"): whichever
    an adapter reads.
    """
    found = {}
    for key, name in given.items():
        if key.endswith("_file") and isinstance(name, str):
            raw = (folder / name).read_bytes()
            found[key.removesuffix("file") + "b64"] = base64.b64encode(
                gzip.decompress(raw) if given.get("gunzip") else raw
            ).decode()
    return found | given


def test_probe(probe, folder):
    module = importlib.import_module(f"tests.conformance.topic_{probe['topic'].replace('-', '_')}")
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    threads = threading.active_count()
    try:
        got = module.answer(with_files(probe["given"], folder), folder)
    except (Refused, ConfigError) as e:
        got = {"error": True, "message": str(e)}
    got = {
        "no_crash": True,
        "elapsed_s": time.monotonic() - started,
        "memory_mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        **got,
    }
    assert threading.active_count() <= threads + 8
    tolerance = probe["expect"].get("tolerance")
    wrong = {}
    for key, want in probe["expect"].items():
        if key == "tolerance":
            continue
        ok = (
            abs(got.get(key, -9) - want) <= tolerance
            if tolerance is not None and key == "jaccard"
            else holds(key, want, got)
        )
        if not ok:
            wrong[key] = {
                "want": want,
                "got": got.get(
                    key.removesuffix(next((e for e in ENDINGS if key.endswith(e)), "\0")),
                    got.get(key),
                ),
            }
    assert not wrong, (
        f"{probe['id']}: {wrong}\nwhy: {probe['why']}\ngiven: {json.dumps(probe['given'])[:1500]}"
    )
