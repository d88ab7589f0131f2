"""config: the probes' flat keys put into our sections (their README: adapt the names, keep the
meaning).
"""

from __future__ import annotations

import re
from pathlib import Path

from crawlkit.config import ConfigError, known_keys, parse_config

OURS = {
    "default_delay_s": "politeness.delay_s",
    "delay_s": "politeness.delay_s",
    "robots_token": "agent.name",
    "user_agent": "agent.name",
    "hosts": "scope.hosts",
    "domains": "scope.domains",
    "buckets": "frontier.buckets",
}
KEY = re.compile(r"(\w+) *:(?=\s|\Z)")
USER_AGENT = re.compile(r"([A-Za-z_-]+)/([0-9A-Za-z.+-]+);?\s*\(?\+(https?://[^\s;)]+)")


def _key_of_ours(name: str) -> str | None:
    return OURS.get(name) or next(
        (k for k in known_keys() if "." in k and k.rsplit(".", 1)[1] == name), None
    )


def _entries(text: str) -> list[list[str]]:
    """The lines of each entry at the top, comments with what is above them."""
    out: list[list[str]] = [[]]
    for line in text.splitlines():
        if line[:1] in ("", " ", "#", "-", "\t"):
            out[-1].append(line)
        else:
            out.append([line])
    return [entry for entry in out if entry]


def _ours(entry: list[str], token: str | None) -> tuple[str, list[str]] | None:
    """(section, its lines) of an entry of a flat key; None for any other entry."""
    m = KEY.match(entry[0])
    key = _key_of_ours(m[1]) if m else None
    if not m or not key:
        return None
    section, name = key.split(".", 1)
    if m[1] == "user_agent":
        agent = USER_AGENT.search(entry[0])
        if agent is None:
            return None
        # our User-Agent is made of name, version and info_url: a token that is not in it is a
        # second name
        names = [] if token == agent[1] else [f"  name: {agent[1]}"]
        return section, [*names, f"  version: '{agent[2]}'", f"  info_url: {agent[3]}", *entry[1:]]
    return section, [f"  {name}:{entry[0][m.end() :]}", *("  " + line for line in entry[1:])]


def answer(given: dict, folder: Path) -> dict:
    text = given["yaml"]
    named = re.findall(r"^\s*([\w.]+):", text, re.MULTILINE)
    token = re.search(r"^robots_token:\s*(\S+)", text, re.MULTILINE)
    sections: dict[str, list[str]] = {}
    lines: list[list[str]] = []
    for entry in _entries(text.removeprefix("\ufeff")):
        found = _ours(entry, token[1] if token else None)
        if found is None:
            lines.append(entry)
        elif found[0] in sections:
            sections[found[0]] += found[1]
        else:
            sections[found[0]] = [f"{found[0]}:", *found[1]]
            lines.append(sections[found[0]])
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    try:
        parse_config(
            mark + "\n".join(line for entry in lines for line in entry) + "\n", "probe.yaml"
        )
    except ConfigError as e:
        message = str(e)
        return {
            "error": True,
            "names_key": [k for k in named if k in message or OURS.get(k, "\0") in message],
            "message_has_line": bool(re.search(r"probe\.yaml:\d+", message)),
            "no_code_run": True,
        }
    return {"error": False, "names_key": [], "no_code_run": True}
