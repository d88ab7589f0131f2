"""Whether a page shows a browser another content than what it sends (cloaking): the stored
document's text and links against those of the rendered one.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from crawlkit.rules.duplicates.fingerprint import shingles

MIN_SHINGLES = 50  # of three words: less text is no evidence
MIN_KEPT = 0.2  # of the stored text's shingles, or of its links
MIN_LINKS = 5


class Cloaking(StrEnum):
    """What suggests that a page is cloaked: `pages.cloaking`."""

    TEXT_REPLACED = "text_replaced"  # a browser shows another text
    TEXT_REMOVED = "text_removed"  # a browser shows hardly any of it
    LINKS_REPLACED = "links_replaced"
    LINKS_REMOVED = "links_removed"


class Compared(NamedTuple):
    """similarity: share (0 to 1) of the stored text's shingles that are in the rendered text; None:
    the stored document has too little text. cloaking: what suggests it.
    """

    similarity: float | None
    cloaking: Cloaking | None


def compare_rendered(
    stored_text: str, rendered_text: str, stored_links: Collection[str], links: Collection[str]
) -> Compared:
    """A stored document beside what a browser made of it. Links: URLs.

    What scripts add is no evidence, what they take away is: a page for readers keeps its text.
    """
    before, after = (np.unique(shingles(text)) for text in (stored_text, rendered_text))
    similarity = None
    if len(before) >= MIN_SHINGLES:
        similarity = len(np.intersect1d(before, after, assume_unique=True)) / len(before)
        if similarity < MIN_KEPT:
            has_text = len(after) >= MIN_SHINGLES
            found = Cloaking.TEXT_REPLACED if has_text else Cloaking.TEXT_REMOVED
            return Compared(similarity, found)
    had, has = {*stored_links}, {*links}
    if len(had) >= MIN_LINKS and len(had & has) < MIN_KEPT * len(had):
        has_links = len(has) >= MIN_LINKS
        return Compared(
            similarity, Cloaking.LINKS_REPLACED if has_links else Cloaking.LINKS_REMOVED
        )
    return Compared(similarity, None)
