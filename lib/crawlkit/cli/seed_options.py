"""The options of `crawl` and `inject` for seeds, scope and limits."""

from __future__ import annotations

from typing import Annotated, Any, Optional

import typer
from typer.core import TyperCommand

SAMPLE = "(own)"  # --sample without a folder


class SampleCommand(TyperCommand):
    """A command whose option --sample may stand without a value, which typer does not offer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As of any command, once a lone --sample has got its value."""
        given: list[str] = []
        for word, after in zip(args, [*args[1:], "-"], strict=False):
            given.append(word)
            if word == "--sample" and (after.startswith("-") or "://" in after):
                given.append(SAMPLE)
        return super().parse_args(ctx, given)


Seeds = Annotated[
    Optional[str],
    typer.Option(
        "--seeds",
        metavar="FILE",
        help=(
            "Seed file or s3://bucket/key, one URL a line with optional TAB key=value (- reads"
            " standard input)."
        ),
    ),
]
ScopeKind = Annotated[
    Optional[str],
    typer.Option(
        "--scope",
        metavar="KIND",
        help=(
            "What the seeds put into scope: their domain (the default of a new crawl), host or"
            " prefix, or any (the whole web)."
        ),
    ),
]
Requisites = Annotated[
    bool,
    typer.Option(
        "--requisites",
        help=(
            "Fetch what pages need to be replayed too, of any host: images, style sheets, scripts,"
            " fonts, media (scope.requisites)."
        ),
    ),
]
MaxDepth = Annotated[
    Optional[int], typer.Option("--max-depth", min=0, help="Links from a seed at most.")
]
MaxPages = Annotated[
    Optional[int],
    typer.Option(
        "--max-pages", min=1, help="Pages to ask for, over all rounds (requisites count)."
    ),
]
MaxMinutes = Annotated[
    Optional[float], typer.Option("--max-minutes", min=0.01, help="Time to fetch for.")
]
MaxBytes = Annotated[
    Optional[int], typer.Option("--max-bytes", min=1, help="Bytes of bodies to fetch.")
]
Sample = Annotated[
    Optional[str],
    typer.Option(
        "--sample",
        metavar="[FOLDER]",
        help=(
            "Serve a sample web on loopback and crawl it: the one that comes with crawlkit, or that"
            " of a folder."
        ),
    ),
]
