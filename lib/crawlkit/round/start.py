"""What a crawl begins with: its seeds looked at, the scope that they stand for, its first line."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator

from crawlkit.config.layers import Settings
from crawlkit.config.section import ConfigError
from crawlkit.config.whole import Config
from crawlkit.crawl.state import Crawl, Place
from crawlkit.outcomes import Refused
from crawlkit.round.limits import Limits
from crawlkit.round.seed_check import judge_seeds
from crawlkit.rules.url.canonical import host_of
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.seed_scope import KINDS, MAX_NAMES, scope_of_seeds
from crawlkit.rules.url.seeds import parse_seed

CHECKED_SEEDS = 1000


def check_seeds(data: Place, settings: Settings, lines: list[str]) -> None:
    """Look at the seeds before anything is written.

    Raises ConfigError: there is nothing to begin with, all of a short list are refused, or the
    agent is still the placeholder.
    """
    cfg = settings.config
    if not lines:
        if settings.kept is None and not Crawl(data, cfg).round_ids():
            raise ConfigError("no seeds: give a URL, or --seeds FILE with one URL a line")
        return
    cfg.check_agent(host_of(url) for url in _urls_of(lines, cfg))
    if len(lines) > CHECKED_SEEDS:
        return
    added, refused = judge_seeds(lines, cfg, time.time())
    if refused and not added:
        shown = "\n".join(f"  {text}" for text in refused[:5])
        raise ConfigError(f"all {len(refused)} seeds are refused:\n{shown}")


def set_scope(
    settings: Settings, lines: list[str], kind: str | None, tell: Callable[[str], None]
) -> Settings:
    """The settings with the scope that the seeds stand for; a change of it is told.

    With `kind` (--scope) it is added to what is in scope; without, only a crawl that has no scope
    yet gets one. Raises ConfigError.
    """
    scope = settings.config.scope
    has_scope = bool(scope.hosts or scope.domains or scope.prefixes or scope.any)
    if kind == "any":
        return settings.with_sets(["scope.any=true", *_NO_NAMES], "--scope")
    if kind not in (None, *KINDS):
        raise ConfigError(f"--scope {kind!r:.40}: expected host, domain, prefix or any")
    if kind is None and (has_scope or not lines):
        return settings
    if scope.any:
        raise ConfigError("--scope: scope.any is set, so everything is in scope already")
    key = KINDS[kind or "domain"]
    before = list(getattr(scope, key))
    found = scope_of_seeds(_urls_of(lines, settings.config), kind or "domain")
    names = list(dict.fromkeys([*before, *found]))
    if len(names) > MAX_NAMES:
        raise ConfigError(
            f"the seeds name {len(names)} {key}: say with --scope any that the whole web is in"
            f" scope, or list them under scope.{key} in a file for --config"
        )
    if names == before:
        return settings
    if has_scope:
        shown = json.dumps(before), json.dumps(names)
        tell("scope.{}: was {}, now {}".format(key, *shown))
    return settings.with_sets([f"scope.{key}={json.dumps(names)}"], "--scope" if kind else "seeds")


_NO_NAMES = ("scope.hosts=[]", "scope.domains=[]", "scope.prefixes=[]")


def _urls_of(lines: list[str], cfg: Config) -> Iterator[str]:
    policy = UrlPolicy.of(cfg.urls)
    for line in lines:
        with contextlib.suppress(Refused):
            seed = parse_seed(line, policy=policy)
            if seed is not None:
                yield seed.url


_REQUISITES = {
    "none": "",
    "scope": ", with what pages there need",
    "any": ", with what its pages need from any host",
}


def first_line(cfg: Config, rounds: int, limits: Limits) -> str:
    """What a crawl is about to do: scope, agent, pace, how much at most."""
    scope, names = cfg.scope, []
    for key in KINDS.values():
        values = getattr(scope, key)
        more = f" and {len(values) - 3} more" if len(values) > 3 else ""
        names += [f"{key} {', '.join(values[:3])}{more}"] if values else []
    depth = f"{scope.max_depth}{_REQUISITES[scope.requisites]}"
    delay_s = cfg.politeness.delay_s
    pace = f"one request a host every {delay_s:g} s" if delay_s else "no delay between requests"
    most = [f"{rounds} round{'s' if rounds > 1 else ''} of at most {cfg.round.max_urls:,} URLs"]
    most += [f"{limits.pages:,} pages"] if limits.pages else []
    most += [f"{limits.minutes:g} minutes"] if limits.minutes else []
    most += [f"{limits.body_bytes:,} bytes"] if limits.body_bytes else []
    return (
        f"in scope: {'; '.join(names) or 'the whole web'}, to depth {depth}. Agent:"
        f" {cfg.agent.user_agent}. Pace: {pace} (robots.txt may ask for more). At most:"
        f" {', '.join(most)}."
    )
