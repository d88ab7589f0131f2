"""Language of a text, detected (py3langid; its model is read at the first use)."""

from __future__ import annotations

MIN_LETTERS = 40
SAMPLE_CHARS = 600


def detect_language(text: str) -> str | None:
    """ISO 639-1 code of the language of `text`; None where there are too few letters to tell."""
    sample = text[:SAMPLE_CHARS]
    if (
        sum(map(str.isalpha, sample[: 2 * MIN_LETTERS])) < MIN_LETTERS  # enough for most
        and sum(map(str.isalpha, sample)) < MIN_LETTERS
    ):
        return None
    from py3langid import langid  # here: its model takes half a second to read

    return str(langid.classify(sample)[0])
