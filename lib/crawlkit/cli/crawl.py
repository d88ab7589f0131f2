"""`crawlkit crawl` and `crawlkit round`: rounds from start to end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from crawlkit.cli.errors import report_errors
from crawlkit.cli.root import (
    DEFAULT_DATA,
    AsJson,
    ConfigFile,
    Data,
    EngineName,
    Now,
    RoundId,
    Sets,
    app,
    emit,
)
from crawlkit.cli.settings import parse_now, read_config, read_seeds
from crawlkit.config.scope_sections import PLACEHOLDER_INFO_URL
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.next_round import next_round
from crawlkit.crawl.state import Place
from crawlkit.local.sample_site import serve
from crawlkit.outcomes import Refused
from crawlkit.round.drive import AFTER_ALL, run_round
from crawlkit.round.job import Job, make_job
from crawlkit.round.progress import Progress
from crawlkit.round.summary import summarize, summary_text
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.seeds import parse_seed


@contextlib.contextmanager
def open_job(data: Place, cfg: Config, as_json: bool) -> Iterator[Job]:
    """A job on a folder, with its progress on standard error; its engine ends with the context.

    Raises ConfigError, CrawlError, TableError.
    """
    if Path(data).exists() and not Path(data).is_dir():
        raise ConfigError(f"--data {data}: not a folder")
    progress = Progress(as_json)
    job = make_job(data, cfg, quick=True, say=progress)
    try:
        yield job
    finally:
        job.stop()
        progress.close()


@app.command()
@report_errors
def crawl(
    urls: Annotated[Optional[list[str]], typer.Argument(metavar="[URL]...", help="Seeds.")] = None,
    seeds: Annotated[
        Optional[str],
        typer.Option(
            "--seeds",
            metavar="FILE",
            help=(
                "Seed file, one URL a line with optional TAB key=value (- reads standard input)."
            ),
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
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Crawl in rounds: inject the seeds, then fetch what is due, round after round.

    \b
    crawlkit crawl --sample data/samples/site
    crawlkit crawl https://site.example/ --data site --set agent.info_url=https://you.example/bot
    crawlkit crawl --seeds urls.txt --rounds 10 --config my.yaml
    """
    started, nominal = time.time(), parse_now(now)
    given, sets = list(urls or []), list(set_ or [])
    with contextlib.ExitStack() as stack:
        if sample is not None:
            web = stack.enter_context(serve(sample))
            sets = [*web.config_sets(), *sets]
            given = given or list(web.seeds)
        cfg = read_config(config, sets, engine)
        lines = [*given, *(read_seeds(seeds) if seeds else ())]
        refuse_placeholder(cfg, lines)
        job = stack.enter_context(open_job(data, cfg, as_json))
        _ = job.engine  # a Java or JAR that does not work is reported before a row is written
        done, injected = run_rounds(job, rounds, lines, None if now is None else nominal)
        ended = time.time() if now is None else nominal
        emit(summarize(job, done, injected, started, ended), as_json, summary_text)


def run_rounds(
    job: Job, rounds: int, lines: list[str], now: float | None
) -> tuple[list[str], dict[str, Any]]:
    """Ids of the rounds that fetched something, and the counts of inject.

    now: nominal time of every round, Unix s; None: each has the time at which it begins.
    """
    done: list[str] = []
    injected: dict[str, Any] = {}
    finished = True
    for n in range(rounds):
        round_ = next_round(job.crawl, time.time() if now is None else now)
        with job.driving(round_):
            if n == 0 and lines and job.crawl.mark(round_, "generate") is None:
                injected = job.run("inject", round_, force=True, lines=lines)
            finished = run_round(job, round_, last=n == rounds - 1)
        if not finished:
            break
        done.append(round_.id)
    if done and not finished:  # the last full round still needs what waits for the last one
        for stage in AFTER_ALL:
            job.run(stage, job.crawl.round(done[-1]))
    return done, injected


def refuse_placeholder(cfg: Config, lines: list[str]) -> None:
    """The placeholder agent may only speak to loopback.

    Raises ConfigError that names the first other seed.
    """
    if cfg.agent.info_url != PLACEHOLDER_INFO_URL:
        return
    for line in lines:
        try:
            seed = parse_seed(line)
        except Refused:
            continue
        if seed is not None and not cfg.fetch.is_loopback(host_of(seed.url)):
            raise ConfigError(
                f"agent.info_url is still the placeholder, so {host_of(seed.url)} is not asked: set"
                " it to a page that explains your crawler and how to opt out, for example --set"
                " agent.info_url=https://you.example/bot"
            )


@app.command("round")
@report_errors
def round_(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """One round of what is due (no seeds). With --round-id, go on with that round or do nothing if
    it is closed.
    """
    nominal = parse_now(now)
    with open_job(data, read_config(config, set_, engine), as_json) as job:
        started = time.time()
        job.crawl.repair()
        current = (
            job.crawl.open_round(nominal, round_id) if round_id else next_round(job.crawl, nominal)
        )
        done = []
        if current.state == "open":
            with job.driving(current):
                done = [current.id] if run_round(job, current) else []
        emit(summarize(job, done, {}, started, nominal), as_json, summary_text)
