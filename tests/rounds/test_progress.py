"""What a crawl prints while one round or two are under way."""

from __future__ import annotations

from crawlkit.round.progress import Progress
from crawlkit.round.second_lane import half
from crawlkit.round.summary import summary_text


def event(kind: str, round_id: str, **more: object) -> dict[str, object]:
    return {"event": kind, "round_id": round_id, **more}


def progress_of(round_id: str) -> dict[str, object]:
    counts = dict.fromkeys(("queued", "in_flight", "done", "failed", "bytes", "bytes_per_s"), 1)
    rates = {"pages_per_s": 1.0, "bytes_per_s": 9}
    lists = {"slowest": [], "waiting": []}
    return event("fetch_progress", round_id, eta_s=5.0, **(counts | rates), recent=rates, **lists)


def test_lines_begin_with_their_round_while_there_are_two(capsys):
    say = Progress(as_json=False)
    say(event("round", "r1"))
    say(event("stage", "r1", stage="fetch"))
    say(event("round", "r2", beside=True))
    say(event("stage", "r2", stage="fetch"))
    say(event("stage", "r1", stage="parse"))
    say(event("round", "r3"))
    say(event("stage", "r3", stage="fetch"))
    assert capsys.readouterr().err.splitlines() == [
        "round r1",
        "  fetch: fetching ...",
        "round r2 at the same time",
        "  r2  fetch: fetching ...",
        "  r1  parse: reading pages ...",
        "round r3",
        "  fetch: fetching ...",
    ]


def test_a_fetch_is_told_of_once_a_minute_for_each_round(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("crawlkit.round.progress.time.monotonic", lambda: clock[0])
    say = Progress(as_json=False)
    for second in range(0, 130, 10):
        clock[0] = float(second)
        say(progress_of("r1"))
        say(progress_of("r2"))
    told = [line for line in capsys.readouterr().err.splitlines() if "fetching:" in line]
    assert len(told) == 4


def test_half_of_the_memory():
    assert [half(m) for m in ("800MB", "1GB", "501 MiB")] == ["400MB", "0.5GB", "250.5 MiB"]


def test_seeds_that_were_known_are_not_told_of_as_refused(capsys):
    rejected = {"duplicates": 1, "comments": 2, "scope_domain": 4}
    done = {"event": "stage_done", "stage": "inject", "started": 0.0, "ended": 0.5}
    Progress(as_json=False)({**done, "round_id": "r1", "rejected": rejected})
    assert capsys.readouterr().err.rstrip().endswith("; refused: scope_domain 4")


def test_the_summary_says_what_lets_a_refused_port_in():
    places = dict.fromkeys(("report", "warc", "tables", "reached", "next_due"), "x")
    summary = {**places, "rounds": ["r000001"], "wall_s": 1.0, "alerts": [], "left_out": {}}
    summary |= dict.fromkeys(("requests", "pages", "unchanged", "broken_links", "stored_bytes"), 1)
    summary |= {"nothing_due": False, "known_urls": 1, "states": {"refused": 1}, "due_now": 0}
    told = {
        outcome: summary_text({**summary, "outcomes": {outcome: 1}})
        for outcome in ("refused (port_forbidden)", "refused (address_forbidden)", "fetched")
    }
    keys = ("fetch.ports", "fetch.allow_private", "crawlkit recrawl")
    named = [[key in text for key in keys] for text in told.values()]
    assert named == [[True, False, True], [False, True, True], [False, False, False]]
