"""The `crawlkit` command: loads the module of the verb that is asked for, and runs it."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import typer

from crawlkit.cli.app import app
from crawlkit.cli.verbs import VERBS, add_examples


def load_all() -> typer.Typer:
    """The app with every verb loaded."""
    _load(sorted({module for module, _ in VERBS.values()}))
    return app


def _load(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(f"crawlkit.cli.{module}")
    add_examples(app)


def _list_verbs() -> None:
    """Register the verbs by name and help alone: for `--help`, and for a word that is none."""
    for verb, (_, text) in VERBS.items():
        app.command(verb, help=text)(_do_nothing)


def _do_nothing() -> None:
    """Stands for a verb that is not loaded."""


def run(arguments: Sequence[str]) -> None:
    """Run a command line (without the command's own name). Raises SystemExit with its exit code."""
    words = [_decode(word) for word in arguments]
    verb = next((word for word in words if not word.startswith("-")), None)
    if verb in VERBS:
        _load([VERBS[verb][0]])
    else:
        _list_verbs()
    app(words)


def _decode(word: str) -> str:
    """An address in another encoding than the locale's, read as in a seed file."""
    if "://" not in word or word.isascii():
        return word
    from crawlkit.rules.url.canonical import text_of

    return text_of(os.fsencode(word))


def main() -> None:
    """Entry point of the `crawlkit` command."""
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
