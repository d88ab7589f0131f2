"""A key written into the text of a YAML file whose other lines stay as they are."""

from __future__ import annotations

import json
from typing import Any

import yaml

from crawlkit.config.load import line_of


def with_key(text: str, section: str, key: str, value: Any) -> str:
    """The text with section.key set to a value. text: a file of sections that can be read.

    Where the lines do not allow it (a value over several lines, a section in braces), the whole
    file is written anew, and its comments are lost.
    """
    tree = yaml.safe_load(text) or {}
    wanted = {**tree, section: {**(tree.get(section) or {}), key: value}}
    lines = text.splitlines()
    line = f"  {key}: {json.dumps(value)}"
    if key in (tree.get(section) or {}):
        at = line_of(text, (section, key)) or 1
        old = lines[at - 1]
        lines[at - 1] = old[: len(old) - len(old.lstrip())] + line.strip()
    elif section in tree:
        at = line_of(text, (section,)) or 1
        after = lines[at] if at < len(lines) else ""
        indent = after[: len(after) - len(after.lstrip())] or "  "
        lines.insert(at, indent + line.strip())
    else:
        lines += [f"{section}:", line]
    made = "\n".join([*lines, ""])
    try:
        if yaml.safe_load(made) == wanted:
            return made
    except yaml.YAMLError:
        pass
    return yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
