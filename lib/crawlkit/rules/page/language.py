"""Language of a text, detected (py3langid; its model is read at the first use)."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache
from typing import Any

try:
    from crawlkit.native._scan import visits as _visits
except ImportError:
    _visits = None

MIN_LETTERS = 40
SAMPLE_CHARS = 600


def detect_language(text: str) -> str | None:
    """ISO 639-1 code of the language of `text`; None where there are too few letters to tell."""
    sample = text[:SAMPLE_CHARS]
    if sum(map(str.isalpha, sample)) < MIN_LETTERS:
        return None
    return _classify()(sample)[0]


@lru_cache(1)
def _classify() -> Callable[[str], tuple[str, float]]:
    """py3langid's `classify`; its walk over the bytes is made in C where that is built."""
    from py3langid import langid

    if _visits is None:
        return langid.classify

    class Identifier(langid.LanguageIdentifier):
        __slots__ = ("_outputs",)

        def _raw_score(self, text: bytes) -> Any:
            found = _visits(self.tk_nextmove, self.tk_row, self._outputs, text)
            return self._sparse_score(found, self.nb_ptc) if found else super()._raw_score(text)

    identifier = Identifier.from_model_file(langid.MODEL_FILE)
    identifier._outputs = array("i", identifier.tk_output)
    return identifier.classify
