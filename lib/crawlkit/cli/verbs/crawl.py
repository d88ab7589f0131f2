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
    Save,
    Sets,
    app,
    emit,
)
from crawlkit.cli.seed_options import (
    MaxBytes,
    MaxDepth,
    MaxMinutes,
    MaxPages,
    Sample,
    ScopeKind,
    Seeds,
    check_seeds,
    first_line,
    set_scope,
)
from crawlkit.cli.settings import parse_now, read_seeds, read_settings
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.crawl.kept_settings import keep_settings
from crawlkit.crawl.next_round import next_round
from crawlkit.crawl.state import Place
from crawlkit.local.sample_site import serve
from crawlkit.round.drive import AFTER_ALL, run_round
from crawlkit.round.job import Job, make_job
from crawlkit.round.limits import Limits
from crawlkit.round.progress import Progress
from crawlkit.round.summary import summarize, summary_text


@contextlib.contextmanager
def open_job(
    data: Place,
    settings: Settings,
    as_json: bool,
    save: bool = False,
    only_look: bool = False,
) -> Iterator[Job]:
    """A job on a folder, with its progress on standard error; its engine ends with the context.

    A crawl without settings of its own keeps these unless `only_look`; with `save` any crawl does.
    Raises ConfigError, CrawlError, TableError.
    """
    if Path(data).exists() and not Path(data).is_dir():
        raise ConfigError(f"--data {data}: not a folder")
    progress = Progress(as_json)
    job = make_job(data, settings.config, quick=True, say=progress)
    try:
        if save or (settings.kept is None and not only_look):
            keep_settings(data, settings)
        yield job
    finally:
        job.stop()
        progress.close()


@app.command()
@report_errors
def crawl(
    urls: Annotated[Optional[list[str]], typer.Argument(metavar="[URL]...", help="Seeds.")] = None,
    seeds: Seeds = None,
    data: Data = DEFAULT_DATA,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100_000, help="Rounds to run.")] = 3,
    scope: ScopeKind = None,
    max_pages: MaxPages = None,
    max_depth: MaxDepth = None,
    max_minutes: MaxMinutes = None,
    max_bytes: MaxBytes = None,
    sample: Sample = None,
    config: ConfigFile = None,
    set_: Sets = None,
    save: Save = False,
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Crawl in rounds: inject the seeds, then fetch what is due, round after round.

    \b
    crawlkit crawl --sample data/samples/site
    crawlkit crawl https://site.example/ --data site --set agent.info_url=https://you.example/bot
    crawlkit crawl --seeds urls.txt --data site --rounds 10 --max-pages 5000 --scope host
    """
    started, nominal = time.time(), None if now is None else parse_now(now)
    lines = [*(urls or []), *(read_seeds(seeds) if seeds else ())]
    with contextlib.ExitStack() as stack:
        settings = read_settings(data, config, set_, engine)
        if sample is not None:
            web = stack.enter_context(serve(sample))
            settings = settings.with_passing(web.config_sets(), "--sample")
            lines = lines or list(web.seeds)
        if max_depth is not None:
            settings = settings.with_passing([f"scope.max_depth={max_depth}"], "--max-depth")
        settings = set_scope(settings, lines, scope)
        check_seeds(data, settings, lines)
        limits = Limits(max_pages, max_minutes, max_bytes)
        job = stack.enter_context(open_job(data, settings, as_json, save))
        _ = job.engine  # a Java or JAR that does not work is reported before a row is written
        job.say({"event": "begin", "text": first_line(settings.config, rounds, limits)})
        done, injected = run_rounds(job, rounds, lines, nominal, limits)
        ended = time.time() if nominal is None else nominal
        answer = summarize(job, done, injected, started, ended) | {"reached": limits.reached}
        emit(answer, as_json, summary_text)


def run_rounds(
    job: Job, rounds: int, lines: list[str], now: float | None, limits: Limits
) -> tuple[list[str], dict[str, Any]]:
    """Ids of the rounds that fetched something, and the counts of inject.

    now: nominal time of every round, Unix s; None: each has the time at which it begins.
    """
    done: list[str] = []
    injected: dict[str, Any] = {}
    finished = True
    for n in range(rounds):
        cfg = limits.next_round(job, done)
        if cfg is None:
            break
        job.cfg = cfg
        round_ = next_round(job.crawl, time.time() if now is None else now)
        with job.driving(round_):
            if n == 0 and lines and job.crawl.mark(round_, "generate") is None:
                injected = job.run("inject", round_, force=True, lines=lines)
            finished = run_round(job, round_, last=n == rounds - 1)
        if not finished:
            break
        done.append(round_.id)
    if done and (
        not finished or limits.reached
    ):  # the last full round still needs what waits for the last one
        for stage in AFTER_ALL:
            job.run(stage, job.crawl.round(done[-1]))
    return done, injected


@app.command("round")
@report_errors
def round_(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    config: ConfigFile = None,
    set_: Sets = None,
    save: Save = False,
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """One round of what is due (no seeds). With --round-id, go on with that round or do nothing if
    it is closed.
    """
    nominal = parse_now(now)
    with open_job(data, read_settings(data, config, set_, engine), as_json, save) as job:
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
