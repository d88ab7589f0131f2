"""Commands, configuration keys and links of the documentation exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from crawlkit.cli.main import load_all
from crawlkit.cli.verb_table import EXAMPLES
from crawlkit.config import Config, known_keys

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"(?:^ {4}(?:[\w./]*/)?|`)(crawlkit [^`\n#<]+)", re.MULTILINE)


def commands(page: Path) -> list[str]:
    """Command lines of a page, without comments; lines that go on (a final backslash) joined."""
    return [c.strip() for c in COMMAND.findall(re.sub(r"\\\n\s*", "", page.read_text("utf-8")))]


TOP = typer.main.get_command(load_all())  # made once: it takes 40 ms


def given() -> list[str]:
    found = {c for page in PAGES for c in commands(page)}
    return sorted(
        {part.strip() for c in found for part in c.split(" && ")}
        | {e[e.index("crawlkit ") :] for e in EXAMPLES}
    )


def test_there_are_many():
    assert len(given()) > 60


@pytest.mark.parametrize("line", given())
def test_a_command_line_is_one_that_crawlkit_takes(line):
    words = shlex.split(line.replace("...", "").split(" > ")[0].split(" | ")[0])[1:]
    command = TOP
    context = command.make_context("crawlkit", [], resilient_parsing=True)
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            break
        assert words[0] in command.commands, f"no verb {words[0]}"
        command = command.commands[words[0]]
        context, words = (
            command.make_context(words[0], [], resilient_parsing=True, parent=context),
            words[1:],
        )
    options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    assert {w.split("=")[0] for w in words if w.startswith("--")} <= options | {
        "--help",
        "--version",
    }, sorted(options)


def verbs(command=TOP, path="crawlkit"):
    """All verbs: (words, command)."""
    for name, sub in getattr(command, "commands", {}).items():
        if hasattr(sub, "commands"):
            yield from verbs(sub, f"{path} {name}")
        else:
            yield f"{path} {name}", sub


@pytest.mark.parametrize(("words", "command"), list(verbs()), ids=[w for w, _ in verbs()])
def test_the_help_of_each_verb_has_an_example(words, command):
    assert re.search(
        rf"{words}(?: |$)", f"{command.help or ''}\n{command.epilog or ''}", re.MULTILINE
    ), words


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_configuration_keys_of_the_guides_exist():
    sections = set(Config.model_fields)
    for name in ("coming-from.md", "platforms.md", "concepts.md", "alerts.md"):
        for section, key in re.findall(
            r"`([a-z0-9]+)\.([a-z_]+)`", (ROOT / "docs" / name).read_text("utf-8")
        ):
            if section in sections:
                assert key in Config.model_fields[section].annotation.model_fields, (
                    f"{name}: {section}.{key}"
                )


def test_where_in_the_code_is_true():
    """docs/concepts.md: each rule is decided, configured, tested and documented where it says."""
    text = (ROOT / "docs/concepts.md").read_text("utf-8").partition("## Where in the code")[2]
    rows = re.findall(
        r"^\| (.+?) \| `(.+?)` \| (?:none|`(.+?)`) \| `(.+?)` \| \[.+?\]\((.+?)\) \|$", text, re.M
    )
    assert len(rows) >= 12
    keys = set(known_keys())
    for question, decided, key, tested, documented in rows:
        assert (ROOT / "lib/crawlkit" / decided).is_file(), question
        assert not key or key.removesuffix(".*") in keys, question
        assert (ROOT / tested).is_file(), question
        assert (ROOT / "docs" / documented).is_file(), question


def test_each_package_is_named():
    """docs/concepts.md: the table of packages has each folder of modules, and no other."""
    text = (ROOT / "docs/concepts.md").read_text("utf-8")
    table = text.partition("## Packages")[2].partition("## ")[0]
    named = re.findall(r"^\| `([a-z_/]+)` \| .+ \| .+ \|$", table, re.M)
    root = ROOT / "lib/crawlkit"
    packages = [p.parent.relative_to(root).as_posix() for p in root.rglob("__init__.py")]
    assert sorted(named) == sorted(p for p in packages if p != ".")
