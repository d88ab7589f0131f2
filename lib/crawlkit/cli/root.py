"""The command line's root and the options that verbs share. Loads nothing of a crawl."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.version import __version__

HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
    help=(
        "A batch web crawler on one machine or on Spark, with Delta Lake tables. Start with"
        " `crawlkit crawl --sample`, then"
        " `crawlkit crawl https://your.site/ --data DIR`."
    ),
)

Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DIR",
        help=(
            "Folder of the crawl, or s3://bucket/prefix (docs/s3.md): tables/, warc/ and report/"
            " are below it."
        ),
    ),
]
ConfigFile = Annotated[
    Optional[Path],
    typer.Option("--config", metavar="FILE", help="YAML configuration; see conf/default.yaml."),
]
Sets = Annotated[
    Optional[list[str]],
    typer.Option(
        "--set", metavar="A.B=C", help="Override one key, for example --set politeness.delay_s=2."
    ),
]
EngineName = Annotated[
    Optional[str],
    typer.Option(
        "--engine",
        metavar="NAME",
        help=(
            "What runs the stages: local (this machine, no Java) or spark; default: engine.name,"
            " which is local unless a Spark master is set."
        ),
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Now = Annotated[
    Optional[str],
    typer.Option(
        "--now",
        metavar="TIME",
        help=(
            "Nominal time of the round (2026-01-31T12:00:00Z or Unix s); drives schedules, never"
            " pacing."
        ),
    ),
]
RoundId = Annotated[
    Optional[str],
    typer.Option("--round-id", metavar="ID", help="Name of the round (default: the newest open)."),
]
OfCrawl = Annotated[
    Optional[str],
    typer.Option(
        "--data", metavar="DIR", help="A crawl whose settings, pace, robots and stop list hold."
    ),
]
Save = Annotated[
    bool, typer.Option("--save", help="Keep what --config, --set and --scope say in crawl.yaml.")
]
DEFAULT_DATA = "crawl-data"
MAX_CELL_CHARS = 120


def emit(
    value: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str] | None = None
) -> None:
    """Print the command's answer on standard output: as JSON, or as `text` makes it."""
    print(json.dumps(value, default=str) if as_json or text is None else text(value))


def to_json(value: dict[str, Any]) -> str:
    """An answer that has no text of its own, as indented JSON."""
    return json.dumps(value, indent=1, default=str)


def rows_text(rows: list[dict[str, Any]]) -> str:
    """Rows as a plain text table."""
    if not rows:
        return "(no rows)"
    names = list(rows[0])
    cells = [[_cell(r[n])[:MAX_CELL_CHARS] for n in names] for r in rows]
    width = [max(len(n), *(len(c[i]) for c in cells)) for i, n in enumerate(names)]
    lines = [names, ["-" * w for w in width], *cells]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, width, strict=True)).rstrip() for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return value.hex() if isinstance(value, bytes | bytearray) else clean(str(value), "")


def clean(text: str, kept: str = "\t") -> str:
    """A page's own text in one line, with control characters shown as escapes but for those kept:
    what a terminal would obey.
    """
    return "".join(c if c.isprintable() or c in kept else repr(c)[1:-1] for c in text)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Options of the command itself."""
    if version:
        print(f"crawlkit {__version__}")
        raise typer.Exit(0)
