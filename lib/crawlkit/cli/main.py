"""The `crawlkit` command: loads the module of the verb that is called, and runs it.

cli/verb_table.py lets a command load the module of its own verb alone, and `--help` none;
tests/cli/test_main.py holds the table against the verbs themselves.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import typer
from typer.models import CommandInfo

from crawlkit.cli.errors import is_unread
from crawlkit.cli.root import app
from crawlkit.cli.verb_table import EXAMPLES, PANELS, VERBS


def load_all() -> typer.Typer:
    """The app with every verb loaded."""
    _load(sorted({module for module, _ in VERBS.values()}))
    return app


def _load(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(f"crawlkit.cli.verbs.{module}")
    add_examples(app)
    panel_of = {verb: panel for panel, verbs in PANELS.items() for verb in verbs}
    order = list(panel_of)
    for command in app.registered_commands:
        command.rich_help_panel = panel_of[_name(command)]
    for group in app.registered_groups:
        group.rich_help_panel = panel_of[group.name or ""]
    app.registered_commands.sort(key=lambda command: order.index(_name(command)))


def _name(command: CommandInfo) -> str:
    own = getattr(command.callback, "__name__", "")
    return command.name or own.rstrip("_").replace("_", "-")


def _list_verbs() -> None:
    """Register the verbs by name and help alone: for `--help`, and for a word that is none."""
    for panel, verbs in PANELS.items():
        for verb in verbs:
            app.command(verb, help=VERBS[verb][1], rich_help_panel=panel)(_do_nothing)


def _do_nothing() -> None:
    """Takes the place of a verb that is not loaded."""


def add_examples(group: typer.Typer, path: str = "crawlkit") -> None:
    """Give each loaded verb whose text has no example the one of EXAMPLES."""
    for command in group.registered_commands:
        shown = _find_example(f"{path} {_name(command)} ")
        if shown is not None and not command.epilog:
            command.epilog = f"Example: {shown}"
    for sub in group.registered_groups:
        if sub.typer_instance is not None:
            add_examples(sub.typer_instance, f"{path} {sub.name}")


def _find_example(words: str) -> str | None:
    for example in EXAMPLES:
        if words in f"{example} ":
            return example
    alone = words.replace("crawlkit command ", "crawlkit ")  # a command is a verb of its own too
    for example in EXAMPLES if alone != words else ():
        if alone in f"{example} ":
            return example.replace("crawlkit ", "crawlkit command ")
    return None


def run(arguments: Sequence[str]) -> None:
    """Run a command line (without the command's own name). Raises SystemExit with its exit code."""
    words = [_decode(word) for word in arguments]
    typed = _typed() if "_CRAWLKIT_COMPLETE" in os.environ else words
    verb = next((word for word in typed if not word.startswith("-")), None)
    if verb in VERBS:
        _load([VERBS[verb][0]])
    else:
        _list_verbs()
    app(words)


def _typed() -> list[str]:
    """The words of a command line that a shell wants completed."""
    text = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return text.split()[1:]


def _decode(word: str) -> str:
    """An address in another encoding than the locale's, read as in a seed file."""
    if "://" not in word or word.isascii():
        return word
    from crawlkit.rules.url.canonical import text_of

    return text_of(os.fsencode(word))


def main() -> None:
    """The command line of this process. Raises SystemExit with its exit code."""
    run(sys.argv[1:])


def start() -> NoReturn:
    """Entry point of the `crawlkit` command: the process ends with its exit code.

    It ends at once when all is said: threads of native libraries (Arrow, delta-rs, DuckDB) that
    still run while the interpreter is taken down have aborted commands after their answer. A reader
    that has closed its pipe (`| head`) is no error.
    """
    code: int | str | None = 0
    output = -1
    with contextlib.suppress(OSError):
        output = os.dup(1)  # rich puts another file in its place when the reader has gone
    try:
        main()
    except SystemExit as e:
        code = e.code
    except BrokenPipeError:
        code = 0
    except KeyboardInterrupt:  # before or after the verb, which says more (cli/errors.py)
        print("crawlkit: interrupted", file=sys.stderr)
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    if code == 1 and output >= 0 and is_unread(output):  # what click and rich make of a closed pipe
        code = 0
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None: started with it closed
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    start()
