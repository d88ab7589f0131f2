"""The command line: `crawlkit crawl`, one verb for each stage, and the verbs that look and steer.

Exit codes: 0 done (also when nothing was due), 1 failed, 2 bad input, 3 a lock is held by another
process.
"""

from __future__ import annotations

import datetime
import errno
import getpass
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Optional
from urllib.parse import unquote

import typer

from crawlkit import __version__
from crawlkit.config import Config, ConfigError, load_config
from crawlkit.round.state import Place

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "A batch web crawler on Spark and Delta Lake. Start with `crawlkit crawl --sample`, then"
        " `crawlkit crawl https://your.site/ --data DIR`."
    ),
)

Data = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DIR",
        help=(
            "Folder of the crawl, or s3://bucket/prefix (docs/s3.md): tables/, warc/, report/ stand"
            " below it."
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
    typer.Option(
        "--round-id", metavar="ID", help="Name of the round (default: the newest open one)."
    ),
]
DEFAULT_DATA = "crawl-data"
YEAR_10000 = 253_402_300_800  # Unix s; timestamps of tables and of Python end before it


def parse_now(text: str | None) -> float:
    """Unix s of --now; a time without an offset is UTC. Raises ConfigError."""
    if text is None:
        return time.time()
    try:
        if re.fullmatch(r"[0-9]+(\.[0-9]*)?", text):
            at = float(text)
        else:
            told = datetime.datetime.fromisoformat(text)
            at = (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError):
        at = -1.0
    if not 0 <= at < YEAR_10000:
        raise ConfigError(
            f"--now {text!r:.60}: expected a time like 2026-01-31T12:00:00Z or Unix seconds, from"
            " 1970 to 9999"
        )
    return at


def emit(
    value: dict[str, Any], as_json: bool, text: Callable[[dict[str, Any]], str] | None = None
) -> None:
    """The command's answer on standard output."""
    print(json.dumps(value, default=str) if as_json or text is None else text(value))


def actor() -> str:
    """Who gives an order here: the user's name, or number where it has none."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


def fail(message: str, code: int) -> typer.Exit:
    print(f"crawlkit: {message}", file=sys.stderr)
    return typer.Exit(code)


# errors of a path that was given, not of the machine
UNUSABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENOENT,
    errno.EEXIST,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EBUSY,
    errno.ENOTEMPTY,
)
JVM_GONE = (
    "Spark's Java process has ended (killed, or out of memory): run the same command again to go on"
)


def guarded(run: Callable[[], Any]) -> Any:
    """`run()` with every foreseen error as one message and its exit code."""
    from crawlkit.adapters.lake.delta import TableError
    from crawlkit.adapters.store.flock import LockHeld
    from crawlkit.adapters.store.lease import LeaseHeld
    from crawlkit.adapters.store.objects import StoreFull, StoreRefused, StoreUnavailable
    from crawlkit.outcomes import Refused
    from crawlkit.round.job import StageError
    from crawlkit.round.state import CrawlError
    from crawlkit.runtime.jars import JarsError
    from crawlkit.runtime.session import SessionError, first_cause

    try:
        return run()
    except (
        ConfigError,
        CrawlError,
        TableError,
        SessionError,
        JarsError,
        Refused,
        StoreRefused,
    ) as e:
        raise fail(str(e), 2) from None
    except StoreUnavailable as e:
        raise fail(f"{e}; then run the same command again", 1) from None
    except (LockHeld, LeaseHeld) as e:
        raise fail(str(e), 3) from None
    except StageError as e:
        raise fail(str(e), 1) from None
    except StoreFull as e:
        raise fail(
            f"{e.strerror or e}: free some space and run the same command again", 1
        ) from None
    except KeyboardInterrupt:
        raise fail("interrupted: run the same command again to go on", 1) from None
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise fail(
                f"no space left on {e.filename or 'the disk'}: free some and run the same command"
                " again",
                1,
            ) from None
        if e.errno in UNUSABLE:
            raise fail(f"{e.filename2 or e.filename}: {e.strerror}", 2) from None
        if e.errno in (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE):
            raise fail(
                f"{e.filename or 'input or output'}: {e.strerror}: run the same command again once"
                " that is mended",
                1,
            ) from None
        if isinstance(e, ConnectionError):
            raise fail(JVM_GONE, 1) from None
        raise
    except Exception as e:  # Spark wraps everything in its own types: find what is behind it
        text = str(e)
        full = "no space left on the disk: free some and run the same command again"
        for mark, code, message in (
            ("No space left on device", 1, full),
            ("no room left in the store", 1, full),
            (
                "StoreUnavailable: ",
                1,
                (
                    f"{_line_with(text, 'StoreUnavailable: ').partition('StoreUnavailable: ')[2]};"
                    " then run the same command again"
                ),
            ),
            (
                "StoreRefused: ",
                2,
                _line_with(text, "StoreRefused: ").partition("StoreRefused: ")[2],
            ),
            ("LeaseHeld", 3, "a fetch slot is held by another process; wait for it or end it"),
            (
                "PartDamaged: ",
                2,
                (
                    f"{_line_with(text, 'PartDamaged: ').partition('PartDamaged: ')[2]}: the"
                    " round's state is damaged: restore that file from a copy"
                ),
            ),
            ("placeholder", 2, _line_with(text, "placeholder")),
        ):
            if mark in text:
                raise fail(message, code) from None
        if place := damaged_file(text):
            raise fail(
                f"{place} is damaged or gone: restore the table's folder from a copy", 2
            ) from None
        if type(e).__name__ == "Py4JNetworkError":
            raise fail(JVM_GONE, 1) from None
        if type(e).__module__.startswith(("pyspark", "py4j", "delta")):
            print(text, file=sys.stderr)
            raise fail(
                f"Spark failed: {first_cause(text)}; run the same command again, or see the text"
                " above",
                1,
            ) from None
        raise


def _line_with(text: str, word: str) -> str:
    return next((line.strip()[-500:] for line in text.splitlines() if word in line), text[:300])


def damaged_file(text: str) -> str | None:
    """The table file that Spark could not read, if that is what an error says."""
    if not any(
        mark in text
        for mark in (
            "FAILED_READ_FILE",
            "FileNotFoundException",
            "ChecksumException",
            "is not a Parquet file",
            "DELTA_TRUNCATED",
            "DELTA_STATE_RECOVER",
        )
    ):
        return None
    found = re.search(
        r"(?:file:)?((?:s3a:/)?/[^\s:,]{1,1000}(?:\.parquet|/_delta_log)[^\s:,]{0,200})", text
    )
    if not found:
        return None
    place = unquote(found[1]).rstrip(".")
    return place if place.startswith("s3a:") else "/" + place.lstrip("/")


def open_job(
    data: Place,
    config: Path | None,
    sets: list[str] | None,
    as_json: bool,
    cfg: Config | None = None,
    quick: bool = True,
) -> Any:
    """A Job with progress on standard error."""
    from crawlkit.round.job import make_job
    from crawlkit.round.progress import Progress

    cfg = cfg or load_config(config, tuple(sets or ()))
    if Path(data).exists() and not Path(data).is_dir():
        raise ConfigError(f"--data {data}: not a folder")
    return make_job(data, cfg, quick=quick, say=Progress(as_json))


def read_seeds(path: str) -> Iterator[str]:
    """Lines of a seed file (`-`: standard input). Raises ConfigError."""
    from crawlkit.rules.url.canonical import text_of

    try:
        with sys.stdin.buffer if path == "-" else open(path, "rb") as f:
            for n, raw in enumerate(f, 1):
                if n == 1 and raw.startswith(
                    (b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b", b"PK\x03\x04")
                ):
                    raise ConfigError(f"--seeds {path}: not a UTF-8 text file (one URL a line)")
                for line in raw.rstrip(b"\r\n").split(b"\r"):
                    yield text_of(line[:70_000])
    except OSError as e:
        raise ConfigError(
            f"--seeds {path}: {e.strerror}: give a text file with one URL a line"
        ) from None


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(f"crawlkit {__version__}")
        raise typer.Exit(0)


@app.command()
def crawl(
    urls: Annotated[Optional[list[str]], typer.Argument(metavar="[URL]...", help="Seeds.")] = None,
    seeds: Annotated[
        Optional[str],
        typer.Option(
            "--seeds",
            metavar="FILE",
            help="Seed file, one URL a line with optional TAB key=value (- reads standard input).",
        ),
    ] = None,
    data: Data = DEFAULT_DATA,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100_000, help="Rounds to run.")] = 3,
    sample: Annotated[
        Optional[Path],
        typer.Option(
            "--sample",
            metavar="FOLDER",
            help="Serve a sample web on loopback and crawl it (data/samples/site).",
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Crawl in rounds: inject the seeds, then fetch what is due, round after round.

    \b
    crawlkit crawl --sample data/samples/site
    crawlkit crawl https://site.example/ --data site --set agent.info_url=https://you.example/bot
    crawlkit crawl --seeds urls.txt --rounds 10 --config my.yaml
    """
    from crawlkit.round.drive import crawl_command

    guarded(
        lambda: crawl_command(
            list(urls or []),
            seeds,
            data,
            rounds,
            sample,
            config,
            tuple(set_ or ()),
            parse_now(now),
            as_json,
            now is not None,
        )
    )


@app.command("round")
def round_(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """One round of what is due (no seeds).

    With --round-id, go on with that round or do nothing if it is closed.
    """
    from crawlkit.round.drive import round_command

    guarded(
        lambda: round_command(data, round_id, config, tuple(set_ or ()), parse_now(now), as_json)
    )


@app.command("open")
def open_(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    resume: Annotated[
        Optional[str],
        typer.Option(
            "--resume",
            metavar="PREFIX",
            help=(
                "Rather go on with the oldest open round whose name starts so, if nobody drives it."
            ),
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Open a round of that name, or find it; starts no JVM.

    Its name goes to the stages as --round-id.

    crawlkit open --data site --round-id nightly-42 --resume nightly-
    """
    from crawlkit.round.drive import open_command

    guarded(
        lambda: open_command(
            data, round_id, resume, config, tuple(set_ or ()), parse_now(now), as_json
        )
    )


def _stage_command(name: str, text: str) -> None:
    def command(
        data: Data = DEFAULT_DATA,
        round_id: RoundId = None,
        config: ConfigFile = None,
        set_: Sets = None,
        now: Now = None,
        as_json: AsJson = False,
        force: Annotated[
            bool,
            typer.Option(
                "--force", help="Run again although the stage has finished; changes nothing."
            ),
        ] = False,
        seeds: Annotated[
            Optional[str],
            typer.Option(
                "--seeds", metavar="FILE", help="inject: seed file (- reads standard input)."
            ),
        ] = None,
        priority: Annotated[
            str, typer.Option("--priority", help="inject: 0..3 or critical, high, normal, low.")
        ] = "1",
        mode: Annotated[
            str,
            typer.Option(
                "--mode", help="inject: keep, update or overwrite what is known of a URL."
            ),
        ] = "keep",
        region: Annotated[
            Optional[str],
            typer.Option(
                "--region",
                metavar="NAME",
                help="fetch: only what this region of fetch.regions fetches.",
            ),
        ] = None,
    ) -> None:
        from crawlkit.round.drive import stage_command

        guarded(
            lambda: stage_command(
                name,
                data,
                round_id,
                config,
                tuple(set_ or ()),
                parse_now(now),
                as_json,
                force,
                seeds,
                priority,
                mode,
                region,
            )
        )

    command.__doc__ = text
    app.command(name)(command)


for _name, _text in {
    "inject": "Add seeds to the frontier. Opens a round if none is open.",
    "generate": "Choose what is due and write the round's fetch list.",
    "fetch": "Fetch the fetch list politely into WARC files.",
    "commit": "Record exactly one outcome for each planned URL.",
    "parse": "Read the stored pages: text, links, metadata.",
    "dedup": "Find equal and nearly equal pages.",
    "update": "Write each URL's next state and fold it into crawldb.",
    "rank": "Count in-links and host quality.",
    "report": "Write the report page; closes the round.",
}.items():
    _stage_command(_name, _text)


@app.command()
def maintain(
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Compact tables, pack small WARC files, drop folded log rows, remove orphans."""
    from crawlkit.round.drive import maintain_command

    guarded(lambda: maintain_command(data, config, tuple(set_ or ()), parse_now(now), as_json))


def main() -> None:
    """Entry point of the `crawlkit` command."""
    for name in ("export", "look", "plan", "steer", "upkeep", "examples"):
        importlib.import_module(f"crawlkit.cli.{name}")
    from crawlkit.rules.url.canonical import text_of

    sys.argv[1:] = [
        text_of(os.fsencode(given)) if "://" in given else given for given in sys.argv[1:]
    ]  # addresses in another encoding, read as in seed files
    app()


if __name__ == "__main__":
    main()
