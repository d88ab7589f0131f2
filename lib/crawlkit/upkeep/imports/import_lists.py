"""`crawlkit import`: URLs of other tools' lists, and ranked domains.

URLs go into the frontier, ranks into the quality of hosts. A list is read in pieces of PIECE lines,
each an injection of its own named by its lines: memory is bounded, and a killed import that is run
again adds nothing twice. What is refused is stored in `rejects` with file and line.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from crawlkit.config import ConfigError
from crawlkit.outcomes import Refused
from crawlkit.round.job import Job
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.seed_lists import FORMS, authority, parse_rank
from crawlkit.rules.url.seeds import MAX_LINE_CHARS

PIECE = 100_000
MAX_RANKED = 1_000_000
PARQUET = "cc-index"
EXAMPLES = 5


def import_file(
    job: Job, form: str, path: Path, now: float, priority_class: int = 2, hint: bool = False
) -> dict[str, Any]:
    """Inject the URLs of a list; counts. hint: known ones are due at once.

    Raises ConfigError: the file cannot be read or is not of this form (its first line is not).
    """
    totals: Counter[str] = Counter({"lines": 0, "added": 0, "duplicates": 0, "refused": 0})
    examples: list[str] = []
    lines = read_urls(path) if form == PARQUET else read_lines(path)
    first = list(itertools.islice(lines, PIECE))
    _check_form(form, path, first, UrlPolicy.of(job.cfg.urls))
    at = 1
    while first:
        rounds = [r for r in job.crawl.open_rounds() if not r.imported]
        round_ = (
            rounds[-1]
            if rounds and job.crawl.mark(rounds[-1], "generate") is None
            else job.crawl.open_round(now)
        )
        with job.driving(round_):
            done = job.run(
                "inject",
                round_,
                force=True,
                lines=first,
                priority_class=priority_class,
                source="hint" if hint else "import",
                form="urls" if form == PARQUET else form,
                first_line=at,
                due_at=now if hint else None,
            )
        totals.update(
            {"lines": len(first), **{k: done[k] for k in ("added", "duplicates", "refused")}}
        )
        examples += [f"{path}: {e}" for e in done["examples"]]
        at += len(first)
        first = list(itertools.islice(lines, PIECE))
    return {"file": str(path), "form": form, **totals, "examples": examples[:EXAMPLES]}


def listed_urls(form: str, path: Path, policy: UrlPolicy) -> list[str]:
    """The URLs of a list's first PIECE lines, for the scope that they stand for.

    Raises ConfigError.
    """
    found = []
    for line in itertools.islice(read_urls(path) if form == PARQUET else read_lines(path), PIECE):
        with contextlib.suppress(Refused):
            if (seed := FORMS["urls" if form == PARQUET else form](line, 2, policy)) is not None:
                found.append(seed.url)
    return found


def import_ranks(job: Job, path: Path, name: str) -> dict[str, Any]:
    """Put a ranked list in place of the one of this name in `domain_authority`. Raises ConfigError.

    `rank` adds it to the quality of hosts.
    """
    rows: dict[str, dict[str, Any]] = {}
    bad: list[str] = []
    for n, line in enumerate(read_lines(path), 1):
        try:
            ranked = parse_rank(line)
        except Refused as e:
            if n == 1:
                raise ConfigError(f"{path}:1: {e.detail}") from None
            bad.append(f"{path}:{n}: {e.detail}")
            continue
        if ranked is None or ranked[1] in rows:
            continue
        if len(rows) == MAX_RANKED:
            raise ConfigError(f"{path}:{n}: more than {MAX_RANKED} domains: cut the list there")
        rows[ranked[1]] = {
            "list": name,
            "domain": ranked[1],
            "rank": ranked[0],
            "authority": authority(ranked[0]),
        }
    with job.crawl.lock:
        job.tables.replace("domain_authority", list(rows.values()), {"list": [name]})
        job.remember_tables()
    return {
        "file": str(path),
        "list": name,
        "domains": len(rows),
        "refused": len(bad),
        "examples": bad[:EXAMPLES],
    }


def _check_form(form: str, path: Path, lines: list[str], policy: UrlPolicy) -> None:
    """Check that the first line with data is of the form. Raises ConfigError.

    So a whole file of another kind is not read to its end.
    """
    if (
        form == "nutch"
        and lines
        and not any(FORMS[form](line, 2, policy) for line in lines[:1000] if "Version:" in line)
    ):
        raise ConfigError(
            f"{path}:1: no record of `nutch readdb -dump` in its first lines (URL, TAB, Version: N)"
        )
    for n, line in enumerate(lines if form in ("cdxj", "tranco", "heritrix") else (), 1):
        try:
            if FORMS[form](line, 2, policy) is not None:
                return
        except Refused as e:
            if "expected" in e.detail or "not RANK" in e.detail:
                raise ConfigError(f"{path}:{n}: {e.detail}") from None
            return


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a text file, gzip or not; what is beyond the bound of a line is cut off.

    Raises ConfigError.
    """
    n = 0
    try:
        with path.open("rb") as probe:
            packed = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as f:
            while line := f.readline(MAX_LINE_CHARS + 2):
                n += 1
                while (
                    not line.endswith(b"\n")
                    and len(line) > MAX_LINE_CHARS
                    and (rest := f.readline(MAX_LINE_CHARS))
                ):
                    if rest.endswith(b"\n"):
                        break
                yield line.decode("utf-8", "replace")
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        raise ConfigError(f"{path}:{n + 1}: damaged gzip: {e}") from None
    except OSError as e:
        raise ConfigError(f"{path}: {e.strerror}") from None


def read_urls(path: Path) -> Iterator[str]:
    """The column `url` of a Parquet file or a folder of them, a batch at a time.

    Common Crawl's cc-index has this form. Raises ConfigError.
    """

    try:
        found = ds.dataset(path, format="parquet", partitioning="hive")
        field = found.schema.field("url")
        if not (pa.types.is_string(field.type) or pa.types.is_large_string(field.type)):
            raise ConfigError(f"{path}: its column url is {field.type}, not text")
        for batch in found.to_batches(
            columns=["url"], batch_size=4096, batch_readahead=2, fragment_readahead=1
        ):
            for url in batch.column(0).to_pylist():
                yield "" if url is None else url[: MAX_LINE_CHARS + 1].replace("\t", "%09")
    except KeyError:
        raise ConfigError(
            f"{path}: no column url; the columns of Common Crawl's index are expected"
        ) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as e:
        raise ConfigError(
            f"{path}: cannot be read as Parquet: {str(e).splitlines()[0]:.200}"
        ) from None


def import_text(done: dict[str, Any]) -> str:
    """The result of an import for a terminal."""
    if "list" in done:
        head = (
            f"{done['file']}: {done['domains']} domains in the list {done['list']},"
            f" {done['refused']} lines refused"
        )
    else:
        head = (
            f"{done['file']}: {done['lines']} lines, {done['added']} URLs added,"
            f" {done['duplicates']} already known, {done['refused']} refused"
        )
    return "\n".join([head, *(f"  refused: {e}" for e in done["examples"])])
