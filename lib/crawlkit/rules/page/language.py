"""Language of a text, detected (py3langid; its model is read at the first use)."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from crawlkit import native

MIN_LETTERS = 40
SAMPLE_CHARS = 600
_part = native.load("_features")


def detect_language(text: str) -> str | None:
    """ISO 639-1 code of the language of `text`; None where there are too few letters to tell."""
    sample = text[:SAMPLE_CHARS]
    if (
        sum(map(str.isalpha, sample[: 2 * MIN_LETTERS])) < MIN_LETTERS  # enough for most
        and sum(map(str.isalpha, sample)) < MIN_LETTERS
    ):
        return None
    return str(_classifier()(sample)[0])


@lru_cache(1)
def _classifier() -> Callable[[str], tuple[str, float]]:
    """py3langid's `classify`, with its walk over the text in C where that is built."""
    from py3langid import langid  # here: its model takes half a second to read

    if _part is None:
        return langid.classify  # type: ignore[no-any-return]
    count_features = _part.count_features

    class Identifier(langid.LanguageIdentifier):  # type: ignore[misc]
        __slots__ = ("outputs",)

        def _raw_score(self, text: bytes) -> Any:
            found = count_features(self.tk_nextmove, self.tk_row, self.outputs, text)
            return self._sparse_score(found, self.nb_ptc) if found else super()._raw_score(text)

    made = Identifier.from_model_file(langid.MODEL_FILE)
    made.outputs = array("i", made.tk_output)
    return made.classify  # type: ignore[no-any-return]
