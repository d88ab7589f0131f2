"""The `crawlkit` command in this process: no interpreter starts, words and exit codes are alike."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from unittest import mock

from crawlkit.cli.main import main

from tests.rounds.crawlproc import Done


def call(*args: object, env: dict[str, str] | None = None, stdin: str = "") -> Done:
    """`crawlkit ARGS` to its end. An error that the command does not report is raised."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["crawlkit", *map(str, args)]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        mock.patch.dict(os.environ, env or {}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Done(code, out.getvalue(), err.getvalue())
