"""Part manifests: written once, read back whole, damage named."""

from __future__ import annotations

import json

import pytest
from crawlkit.adapters.store.local_objects import LocalObjects
from crawlkit.adapters.store.parts import (
    Note,
    PartDamaged,
    WarcFile,
    decode,
    encode,
    encode_part,
    part_key,
    part_keys,
    read_part,
    read_slot,
    write_part,
)
from crawlkit.config import Config
from crawlkit.model import Capture, RobotsCopy
from crawlkit.rules.politeness.host_state import Event, HostState, after_answer
from hypothesis import given, strategies as st

CAPTURE = Capture(
    "r-0-1-0",
    "r",
    b"\x00\xff" * 8,
    "http://a.example/ü",
    "page",
    "a.example",
    0,
    1,
    0,
    "fetched",
    status=200,
    started=1.25,
)
RECORDS = [
    CAPTURE,
    RobotsCopy(
        "http://a.example",
        "a.example",
        1.5,
        None,
        "timeout",
        "http://a.example/robots.txt",
        b"\xff\x00",
        2.5,
    ),
    after_answer(HostState("a.example"), Event(1.0, 2.0, 503, "7"), Config()),
    WarcFile("x.warc.gz", "r/x.warc.gz", 10, 2),
    Note("signals", {"a": [1, None]}),
]


@pytest.fixture
def store(tmp_path):
    return LocalObjects(tmp_path)


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_round_trip(record):
    assert decode(encode(record)) == record
    assert encode(record).endswith(b"\n")


def test_parts_are_read_in_order(store):
    for slot, attempt, n in ((1, 2, 0), (1, 1, 1), (1, 1, 0), (0, 1, 0), (12, 1, 0)):
        write_part(
            store, part_key("r", slot, attempt, n), encode_part([Note(f"{slot}-{attempt}-{n}")])
        )
    store.put("parts/r/00001/001/begun.json", b"{}")
    assert [(p.attempt, p.n, p.records[0].kind) for p in read_slot(store, "r", 1)] == [
        (1, 0, "1-1-0"),
        (1, 1, "1-1-1"),
        (2, 0, "1-2-0"),
    ]
    keys = part_keys(store, "parts/r/")
    assert keys[0] == "parts/r/00000/001/part-00000.json"
    assert [read_part(store, key).slot for key in keys] == [0, 1, 1, 1, 12]
    assert part_keys(store, "parts/other/") == []


def test_attempts_are_ordered_as_numbers(store):
    for attempt in (999, 1000):
        write_part(store, part_key("r", 0, attempt, 0), encode_part([]))
    assert [p.attempt for p in read_slot(store, "r", 0)] == [999, 1000]


def test_a_part_is_written_once(store):
    write_part(store, part_key("r", 0, 1, 0), encode_part(RECORDS))
    with pytest.raises(FileExistsError):
        write_part(store, part_key("r", 0, 1, 0), encode_part([]))
    assert read_slot(store, "r", 0)[0].records == RECORDS


def test_fields_of_another_version():
    row = json.loads(encode(CAPTURE)) | {"later_field": 1}
    del row["is_outcome"]
    assert decode(json.dumps(row).encode()) == CAPTURE


def test_damage_names_object_and_line(store):
    key = part_key("r", 0, 1, 0)
    write_part(store, key, encode_part(RECORDS))
    path = store.local_path(key)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:20] + b"\n")
    with pytest.raises(PartDamaged, match=r"part-00000\.json:2"):
        read_part(store, key)


@given(
    st.one_of(
        st.binary(max_size=60),
        st.text(max_size=60).map(lambda s: json.dumps({"rec": "capture", "url_key": s}).encode()),
    )
)
def test_law_any_line_is_a_record_or_a_value_error(line):
    try:
        decode(line)
    except ValueError:
        pass
