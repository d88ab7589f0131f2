"""config: the probes' flat keys put into our sections (their README: adapt the names, keep the meaning)."""

from __future__ import annotations

import re
from pathlib import Path

from crawlkit.config import ConfigError, known_keys, parse_config

OURS = {"default_delay_s": "politeness.delay_s", "delay_s": "politeness.delay_s", "robots_token": "agent.name", "hosts": "scope.hosts", "domains": "scope.domains", "buckets": "frontier.buckets"}
LINE = re.compile(r"(\w+):\s*(\S.*)")


def _section(line: str) -> tuple[str, str] | None:
    """(key of ours, value) of a flat `name: value` line; None for any other line."""
    m = LINE.fullmatch(line.strip())
    if not m or "." in m[1]:
        return None
    ours = OURS.get(m[1]) or next((k for k in known_keys() if "." in k and k.rsplit(".", 1)[1] == m[1]), None)
    return (ours, m[2]) if ours else None


def answer(given: dict, folder: Path) -> dict:
    text = given["yaml"]
    named = re.findall(r"^\s*([\w.]+):", text, re.MULTILINE)
    lines = []
    for line in text.splitlines():
        found = None if line.startswith(" ") else _section(line)
        # one line in, one line out: line numbers stay true
        lines.append("{}: {{{}: {}}}".format(*found[0].split(".", 1), found[1]) if found else line)
    try:
        parse_config("\n".join(lines) + "\n", "probe.yaml")
    except ConfigError as e:
        message = str(e)
        return {"error": True, "names_key": [k for k in named if k in message or OURS.get(k, "\0") in message], "message_has_line": bool(re.search(r"probe\.yaml:\d+", message)), "no_code_run": True}
    return {"error": False, "names_key": [], "no_code_run": True}
