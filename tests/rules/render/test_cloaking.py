"""Stored text and links beside those that a browser shows."""

import pytest
from crawlkit.rules.render.cloaking import Cloaking, compare_rendered


def words(first: int, n: int) -> str:
    """A text whose shingles of three words are all different: n words, n - 2 shingles."""
    return " ".join(f"w{i}" for i in range(first, first + n))


def links(first: int, n: int) -> list[str]:
    return [f"http://a.example/{i}" for i in range(first, first + n)]


@pytest.mark.parametrize(
    "stored, rendered, similarity, reason",
    [
        # 98 shingles each, none in common
        ((words(0, 100), []), (words(500, 100), []), 0.0, Cloaking.TEXT_REPLACED),
        ((words(0, 100), []), ("", []), 0.0, Cloaking.TEXT_REMOVED),
        # 22 words of the first are left: 20 of 100 shingles, the least share that is kept
        ((words(0, 102), []), (words(0, 22) + " " + words(500, 99), []), 0.2, None),
        ((words(0, 102), []), (words(0, 21) + " " + words(500, 99), []), 0.19,
         Cloaking.TEXT_REPLACED),
        # what scripts add is none
        ((words(0, 100), links(0, 9)), (words(0, 900), links(0, 99)), 1.0, None),
        # too little to tell
        ((words(0, 51), links(0, 4)), (words(500, 99), links(9, 9)), None, None),
        (("", links(0, 10)), ("", links(8, 10)), None, None),
        (("", links(0, 10)), ("", links(9, 10)), None, Cloaking.LINKS_REPLACED),
        (("", links(0, 10)), ("", links(9, 4)), None, Cloaking.LINKS_REMOVED),
    ],
)  # fmt: skip
def test_what_a_browser_shows_beside_what_was_sent(stored, rendered, similarity, reason):
    texts, urls = zip(stored, rendered, strict=True)
    found = compare_rendered(*texts, *urls)
    assert (found.similarity, found.cloaking) == (similarity, reason)
