"""Machine-readable opt-outs of AI use and of text and data mining, as rows and as one verdict.

Pages say them by directives (`noai`, `notrain` ...), fields (`Content-Usage`, IETF aipref;
`Content-Signal`, contentsignals.org) and TDMRep (W3C); a robots.txt by lines of these two names.
"""

from __future__ import annotations

import json
import re

from crawlkit.rules.robots.matcher import Matcher, Rule, path_of
from crawlkit.rules.robots.meta import RobotsDirectives
from crawlkit.rules.robots.parser import parse

MAX_LINES = 64
MAX_RESERVES_CHARS = 16_384  # of all their paths
_LINE = re.compile(rb"[ \t]*(content-(?:signal|usage))[ \t]*:[ \t]*([^\r\n#]{1,2000})", re.I)
_NO_TEXT = frozenset({"noai", "noml", "notrain"})  # `noimageai` speaks of images alone
# what a field says of training or of use by AI systems: aipref's `train-ai=n`, also its older
# `ai=n`, `genai=n`, and Cloudflare's `ai-train=no`, `ai-input=no`
_KEYS = ("train-ai", "train-genai", "genai", "ai", "ai-train", "ai-input")
_NO_USE = re.compile(rf"\b(?:{'|'.join(_KEYS)})\s*=\s*(?:no?)\b", re.I)


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


def robots_reserves(body: bytes, agent: str) -> str | None:
    """What a robots.txt says of AI use to `agent`: JSON of [key, path, reserves], where a path
    stands for all that begins so; None: it reserves nothing.

    The lines of the group in force and those outside any group count, as for other fields;
    parameters of a value do not. Of more than MAX_LINES or MAX_RESERVES_CHARS each key that is
    reserved for some path is reserved for all.
    """
    values = [
        (s.key, s.path or "/", s.value.partition(";")[0].strip())
        for s in parse(body).signals(agent)
    ]
    said = [
        (key, path, value in ("n", "no"))
        for key, path, value in dict.fromkeys(values)
        if key in _KEYS and value in ("n", "no", "y", "yes")
    ]
    if len(said) > MAX_LINES or sum(len(path) for _, path, _ in said) > MAX_RESERVES_CHARS:
        said = [(key, "/", True) for key in dict.fromkeys(key for key, _, no in said if no)]
    return json.dumps(said) if any(reserves for _, _, reserves in said) else None


def is_reserved(reserves: str, url: str) -> bool:
    """Whether `robots_reserves` of a URL's robots.txt keeps it from AI use: by any key, whose line
    with the longest path decides (draft-ietf-aipref-attach; a tie does not reserve).
    """
    said, path = json.loads(reserves), path_of(url)
    for key in dict.fromkeys(key for key, _, _ in said):
        rules = [Rule(not no, pattern, 0) for name, pattern, no in said if name == key]
        decisive = Matcher(rules).decide(path)
        if decisive is not None and not decisive.allow:
            return True
    return False
