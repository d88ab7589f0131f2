"""Opt-outs of AI use in robots.txt (contentsignals.org; draft-ietf-aipref-attach)."""

import time

import pytest
from crawlkit.rules.robots.opt_outs import MAX_LINES, is_reserved, robots_reserves

SITE = "https://site.example"
CASES = [
    ("Content-Signal: search=yes, ai-train=no", "/a", True),
    ("Content-Usage: train-ai=n", "/a", True),
    ("Content-Usage: train-ai=n;exceptions=(a b), search=y", "/a", True),  # RFC 9651: parameters
    ("Content-Usage: train-ai=y;q=n", "/a", False),
    ("Content-Usage: search=n", "/a", False),
    ("Content-Usage: /a/ train-ai=n\nContent-Usage: /a/b/ train-ai=y", "/a/1", True),
    ("Content-Usage: /a/ train-ai=n\nContent-Usage: /a/b/ train-ai=y", "/a/b/1", False),
    ("Content-Usage: /a/ train-ai=n", "/b", False),
]


def reserves(lines: str, path: str) -> bool:
    said = robots_reserves(f"User-agent: *\n{lines}\nAllow: /\n".encode(), "crawlkit")
    return said is not None and is_reserved(said, f"{SITE}{path}")


@pytest.mark.parametrize(("lines", "path", "reserved"), CASES)
def test_what_is_reserved(lines, path, reserved):
    assert reserves(lines, path) is reserved


def test_the_same_line_counts_once():
    lines = "Content-Usage: /a/ train-ai=n\n" * (MAX_LINES + 1)
    assert (reserves(lines, "/a/1"), reserves(lines, "/b")) == (True, False)


def test_no_reservation_is_lost_among_many_lines():
    """The key is then reserved for all of the host."""
    other = "".join(f"Content-Usage: /{n}/ train-ai=y\n" for n in range(MAX_LINES))
    assert not reserves(other, "/a/1")
    assert reserves(f"{other}Content-Usage: /a/ train-ai=n", "/a/1")
    assert reserves(f"Content-Usage: /{'*a' * 10_000} train-ai=n", "/a/1")


def test_hostile_files_are_bounded_and_read_in_linear_time():
    start = time.process_time()
    for unit in ("Content-Usage: train-ai=n\n", "Content-Usage: /*a*a*a$ ai=n\n", "ai=n,"):
        body = f"User-agent: *\nContent-Usage: {unit * 30_000}".encode()
        assert len(robots_reserves(body, "crawlkit") or "") < 20_000
    wild = "".join(f"Content-Usage: /{'*a' * 100}{n} ai=n\n" for n in range(MAX_LINES))
    assert not reserves(wild, "/" + "a" * 2000 + "b")
    assert time.process_time() - start < 1.5
