"""Language of a text, detected (py3langid; its model is read at the first use)."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import lru_cache

from crawlkit import native

MIN_LETTERS = 40
SAMPLE_CHARS = 600
LEAD = 0.5  # of scores: a closer call is py3langid's own, whose sums are rounded in another order
_part = native.load("_features")


def detect_language(text: str) -> str | None:
    """ISO 639-1 code of the language of `text`; None where there are too few letters to tell."""
    sample = text[:SAMPLE_CHARS]
    if (
        sum(map(str.isalpha, sample[: 2 * MIN_LETTERS])) < MIN_LETTERS  # enough for most
        and sum(map(str.isalpha, sample)) < MIN_LETTERS
    ):
        return None
    return _classifier()(sample)


@lru_cache(1)
def _classifier() -> Callable[[str], str]:
    """Text -> what py3langid's `classify` says, made in C where that is built."""
    from py3langid import langid  # here: its model takes half a second to read

    model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    if _part is None:
        return lambda text: str(model.classify(text)[0])
    best_class = _part.best_class
    tables = model.tk_nextmove, model.tk_row, array("i", model.tk_output), model.nb_ptc, model.nb_pc
    encode, names = model._encode, [str(name) for name in model.nb_classes]

    def classify(text: str) -> str:
        best: int = best_class(*tables, encode(text), LEAD)
        return names[best] if best >= 0 else str(model.classify(text)[0])

    return classify
