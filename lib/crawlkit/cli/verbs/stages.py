"""A verb for each stage of a round, and `crawlkit maintain`."""

from __future__ import annotations

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
    to_json,
)
from crawlkit.cli.seed_options import ScopeKind, Seeds
from crawlkit.cli.settings import parse_now, read_seeds, read_settings, tell
from crawlkit.cli.verbs.crawl import open_job
from crawlkit.config import S3
from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.state import CrawlError
from crawlkit.model import Round
from crawlkit.round.drive import run_stage
from crawlkit.round.job import Job
from crawlkit.round.start import set_scope
from crawlkit.rules.frontier.command_rules import MODES
from crawlkit.rules.frontier.priority import parse_priority
from crawlkit.upkeep.maintain import maintain as run_maintain

TEXTS = {
    "generate": "Choose what is due and write the round's fetch list.",
    "commit": "Record exactly one outcome for each planned URL.",
    "parse": "Read the stored pages: text, links, metadata.",
    "dedup": "Find identical and near-duplicate pages.",
    "update": "Write each URL's next state and fold it into crawldb.",
    "rank": "Count in-links and host quality.",
    "report": "Write the report page; closes the round.",
}


def run_command(
    name: str,
    data: str,
    round_id: str | None,
    settings: Settings,
    now: float,
    as_json: bool,
    force: bool,
    options: dict[str, Any],
    save: bool,
) -> None:
    """One stage of the named or newest open round."""
    with open_job(data, settings, as_json, save) as job:
        round_ = choose_round(job, name, round_id, now)
        with job.driving(round_, options.get("region")):
            counts = run_stage(job, name, round_, force=force, **options)
            if name == "report":
                job.crawl.close(round_)
        emit({"round_id": round_.id, **counts}, as_json, to_json)


def choose_round(job: Job, stage: str, round_id: str | None, now: float) -> Round:
    """The round that a stage belongs to; inject and generate may open one. Raises CrawlError."""
    crawl = job.crawl
    crawl.repair()
    if round_id and stage in ("inject", "generate"):
        return crawl.open_round(now, round_id)
    if round_id:
        return crawl.round(round_id)
    rounds = [r for r in crawl.open_rounds() if not r.imported]
    if stage == "inject":
        is_free = rounds and crawl.mark(rounds[-1], "generate") is None
        return rounds[-1] if is_free else crawl.open_round(now)
    if rounds:
        return rounds[-1]
    if stage == "generate":
        return crawl.open_round(now)
    raise CrawlError(
        f"no round is open in {crawl.data}: start one with `crawlkit generate` or `crawlkit round`"
    )


def inject_options(seeds: str | None, priority: str, mode: str, s3: S3) -> dict[str, Any]:
    """Options of inject. Raises ConfigError."""
    if seeds is None:
        raise ConfigError("inject needs --seeds FILE (one URL a line; - reads standard input)")
    if mode not in MODES:
        raise ConfigError(f"--mode {mode!r}: expected keep, update or overwrite")
    try:
        priority_class = parse_priority(priority)
    except ValueError as e:
        raise ConfigError(f"--priority: {e}") from None
    return {"priority_class": priority_class, "mode": mode, "lines": list(read_seeds(seeds, s3))}


def fetch_options(region: str | None, cfg: Config) -> dict[str, Any]:
    """Options of fetch. Raises ConfigError for a region that is none."""
    if region is None:
        return {}
    known = cfg.fetch.regions
    if region not in known:
        names = ", ".join(known) or "there are none"
        raise ConfigError(f"--region {region}: not in fetch.regions ({names})")
    return {"region": region}


Force = Annotated[
    bool,
    typer.Option("--force", help="Run again although the stage has finished; changes nothing."),
]


@app.command()
@report_errors
def inject(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    seeds: Seeds = None,
    scope: ScopeKind = None,
    priority: Annotated[
        str, typer.Option("--priority", help="0..3 or critical, high, normal, low.")
    ] = "1",
    mode: Annotated[
        str, typer.Option("--mode", help="Keep, update or overwrite what is known of a URL.")
    ] = "keep",
    config: ConfigFile = None,
    set_: Sets = None,
    save: Save = False,
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Add seeds to the frontier. Opens a round if none is open."""
    settings, at = read_settings(data, config, set_, engine), parse_now(now)
    options = inject_options(seeds, priority, mode, settings.config.s3)
    settings = set_scope(settings, options["lines"], scope, tell)
    # each call brings its own lines, which replace the round's of before
    run_command("inject", data, round_id, settings, at, as_json, True, options, save)


@app.command()
@report_errors
def fetch(
    data: Data = DEFAULT_DATA,
    round_id: RoundId = None,
    region: Annotated[
        Optional[str],
        typer.Option(
            "--region", metavar="NAME", help="Only what this region of fetch.regions fetches."
        ),
    ] = None,
    config: ConfigFile = None,
    set_: Sets = None,
    save: Save = False,
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
    force: Force = False,
) -> None:
    """Fetch the fetch list politely into WARC files."""
    settings, at = read_settings(data, config, set_, engine), parse_now(now)
    options = fetch_options(region, settings.config)
    run_command("fetch", data, round_id, settings, at, as_json, force, options, save)


def _register(name: str, text: str) -> None:
    def command(
        data: Data = DEFAULT_DATA,
        round_id: RoundId = None,
        config: ConfigFile = None,
        set_: Sets = None,
        save: Save = False,
        engine: EngineName = None,
        now: Now = None,
        as_json: AsJson = False,
        force: Force = False,
    ) -> None:
        settings, at = read_settings(data, config, set_, engine), parse_now(now)
        run_command(name, data, round_id, settings, at, as_json, force, {}, save)

    command.__doc__ = text
    app.command(name)(report_errors(command))


for _name, _text in TEXTS.items():
    _register(_name, _text)


@app.command()
@report_errors
def maintain(
    data: Data = DEFAULT_DATA,
    config: ConfigFile = None,
    set_: Sets = None,
    engine: EngineName = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Compact tables, pack small WARC files, drop folded log rows, remove orphans."""
    at = parse_now(now)
    with open_job(data, read_settings(data, config, set_, engine), as_json) as job:
        emit(run_maintain(job, at), as_json, to_json)
