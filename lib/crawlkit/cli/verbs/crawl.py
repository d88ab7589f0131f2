"""`crawlkit crawl` and `crawlkit round`: rounds from start to end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Optional

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
    SAMPLE,
    MaxBytes,
    MaxDepth,
    MaxMinutes,
    MaxPages,
    Requisites,
    Sample,
    SampleCommand,
    ScopeKind,
    Seeds,
)
from crawlkit.cli.settings import parse_now, read_seeds, read_settings, tell
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.crawl.kept_settings import keep_begun, keep_settings
from crawlkit.crawl.next_round import next_round, refuse_busy
from crawlkit.crawl.state import Crawl, Place
from crawlkit.local.sample_site import serve
from crawlkit.round.drive import run_round
from crawlkit.round.job import Job, make_job
from crawlkit.round.limits import Limits
from crawlkit.round.progress import Progress
from crawlkit.round.start import check_seeds, first_line, set_scope
from crawlkit.round.summary import summarize, summary_text
from crawlkit.round.waves import Waves

ROUNDS_HELP = "Rounds to run; one that is split in two (round.overlap) counts once."


@contextlib.contextmanager
def open_job(
    data: Place,
    settings: Settings,
    as_json: bool,
    save: bool = False,
    only_look: bool = False,
) -> Iterator[Job]:
    """A job on a folder, with its progress on standard error; its engine ends with the context.

    A crawl without settings of its own keeps these unless `only_look`, and one without a scope that
    of its seeds; with `save` any crawl keeps all of them. Raises ConfigError, CrawlError,
    TableError.
    """
    if Path(data).exists() and not Path(data).is_dir():
        raise ConfigError(f"--data {data}: not a folder")
    progress = Progress(as_json)
    job = make_job(data, settings.config, quick=True, say=progress)
    try:
        if save:
            keep_settings(data, settings)
        elif not only_look:
            keep_begun(data, settings)
        yield job
    finally:
        job.stop()
        progress.close()


@app.command(cls=SampleCommand)
@report_errors
def crawl(
    urls: Annotated[Optional[list[str]], typer.Argument(metavar="[URL]...", help="Seeds.")] = None,
    seeds: Seeds = None,
    data: Data = DEFAULT_DATA,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100_000, help=ROUNDS_HELP)] = 3,
    scope: ScopeKind = None,
    requisites: Requisites = False,
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
    crawlkit crawl --sample
    crawlkit crawl https://site.example/ --data site --set agent.info_url=https://you.example/bot
    crawlkit crawl --seeds urls.txt --data site --rounds 10 --max-pages 5000 --scope host
    """
    started, nominal = time.time(), None if now is None else parse_now(now)
    with contextlib.ExitStack() as stack:
        sets = [*(set_ or []), *(["scope.requisites=any"] if requisites else [])]
        settings = read_settings(data, config, sets, engine)
        given = read_seeds(seeds, settings.config.s3) if seeds else ()
        lines = [*(urls or []), *given]
        if sample is not None:
            web = stack.enter_context(serve() if sample == SAMPLE else serve(sample))
            settings = settings.with_passing(web.config_sets(), "--sample")
            has_begun = bool(Crawl(data, settings.config).round_ids())  # go on with what is due
            lines = lines or ([] if has_begun else list(web.seeds))
        if max_depth is not None:
            settings = settings.with_passing([f"scope.max_depth={max_depth}"], "--max-depth")
        settings = set_scope(settings, lines, scope, tell)
        check_seeds(data, settings, lines)
        refuse_busy(Crawl(data, settings.config))
        limits = Limits(max_pages, max_minutes, max_bytes)
        job = stack.enter_context(open_job(data, settings, as_json, save))
        job.say({"event": "begin", "text": first_line(settings.config, rounds, limits)})
        waves = stack.enter_context(Waves(job, limits))
        waves.run(rounds, lines, nominal)
        ended = time.time() if nominal is None else nominal
        answer = summarize(job, waves.done, waves.injected, started, ended)
        emit(answer | {"reached": limits.reached}, as_json, summary_text)


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
        if round_id:
            current = job.crawl.open_round(nominal, round_id)
        else:
            refuse_busy(job.crawl)
            current = next_round(job.crawl, nominal)
        done = []
        if current.state == "open":
            with job.driving(current):
                done = [current.id] if run_round(job, current) else []
        emit(summarize(job, done, {}, started, nominal), as_json, summary_text)
