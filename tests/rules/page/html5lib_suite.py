"""Reads the html5lib test suite's formats (html5lib-tests, MIT licence) from the archives of the
shared folder.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class TreeCase(NamedTuple):
    name: str
    data: str
    fragment: bool
    script_on: bool
    tree: list[str]


def tree_cases(archive: Path) -> Iterator[TreeCase]:
    for name, raw in _files(archive, ".dat"):
        for n, chunk in enumerate(
            re.split(r"(?:\A|\n)#data\n", raw.decode("utf-8", "surrogatepass"))[1:]
        ):
            data, _, rest = chunk.partition("\n#errors")
            document = rest.partition("\n#document\n")[2]
            if "#document\n" in rest:
                yield TreeCase(
                    f"{name}:{n}",
                    data,
                    "\n#document-fragment\n" in rest,
                    "\n#script-on" in rest,
                    document.split("\n"),
                )


def tokenizer_inputs(archive: Path) -> Iterator[tuple[str, str]]:
    for name, raw in _files(archive, ".test"):
        for test in json.loads(raw).get("tests") or json.loads(raw).get("xmlViolationTests", []):
            text = test["input"]
            if test.get("doubleEscaped"):
                text = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda m: chr(int(m[1], 16)), text)
            yield name, text


def _files(archive: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(ending):
                yield member.name, tar.extractfile(member).read()  # type: ignore[union-attr]


def expected_anchors(tree: list[str]) -> list[str]:
    """href of each `a` and `area` of an expected tree, in order, template contents left out."""
    found: list[str] = []
    path: list[tuple[int, str]] = []
    attribute: list[str] | None = None
    for line in tree:
        m = re.match(r"\| ( *)(.*)\Z", line, re.S)
        if not m:
            if attribute is not None:
                attribute.append(line)
            continue
        depth, rest = len(m[1]), m[2]
        attribute = None
        while path and path[-1][0] >= depth:
            path.pop()
        if tag := re.fullmatch(r"<(?:svg |math )?([^ >]+)>", rest):
            path.append((depth, tag[1]))
        elif rest == "content":
            path.append((depth, "#content"))
        elif (
            path
            and path[-1][1] in ("a", "area")
            and path[-1][0] == depth - 2
            and (value := re.match(r'(?:xlink )?href="(.*)', rest, re.S))
        ):
            if not any(name == "#content" for _, name in path):
                attribute = [value[1]]
                found.append("")
                found[-1] = value[1]
                if not value[1].endswith('"'):
                    continue
        if attribute is not None:
            found[-1] = "\n".join(attribute).removesuffix('"')
    return found
