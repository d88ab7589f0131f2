"""Machine-readable opt-outs of AI use and of text and data mining, as rows and as one verdict.

Pages say them by directives (`noai`, `notrain` ...), fields (`Content-Usage`, IETF aipref;
`Content-Signal`, contentsignals.org) and TDMRep (W3C); a robots.txt by lines of these two names.
"""

from __future__ import annotations

import json
import re

from crawlkit.rules.robots.meta import RobotsDirectives

MAX_LINES = 64
_LINE = re.compile(rb"[ \t]*(content-(?:signal|usage))[ \t]*:[ \t]*([^\r\n#]{1,2000})", re.I)
_NO_TEXT = frozenset({"noai", "noml", "notrain"})  # `noimageai` speaks of images alone
# what a field says of training or of use by AI systems: aipref's `train-ai=n`, also its older
# `ai=n`, `genai=n`, and Cloudflare's `ai-train=no`, `ai-input=no`
_NO_USE = re.compile(r"\b(?:train-ai|train-genai|genai|ai|ai-train|ai-input)\s*=\s*(?:no?)\b", re.I)


def robots_signals(body: bytes) -> list[str]:
    """`name: value` of each such line of a robots.txt, in order, at most MAX_LINES."""
    found: list[str] = []
    for line in body.splitlines():
        match = _LINE.match(line)
        if match is not None and len(found) < MAX_LINES:
            value = match[2].decode("utf-8", "replace").strip()
            found.append(f"{match[1].decode().lower()}: {value}")
    return found


def page_signals(signals: str) -> list[tuple[str, str]]:
    """(kind, value) of what `pages.signals` holds; kinds: ai, tdm_reservation, tdm_policy."""
    given = json.loads(signals)
    found = [("ai", value) for value in given.get("ai", ())]
    for kind in ("tdm_reservation", "tdm_policy"):
        if given.get(kind) is not None:
            found.append((kind, str(given[kind])))
    return found


def opts_out(robots: RobotsDirectives) -> bool:
    """Whether a page reserves its text against AI use or text and data mining."""
    if robots.tdm_reservation == 1:
        return True
    return any(s in _NO_TEXT or bool(_NO_USE.search(s)) for s in robots.ai_signals)
