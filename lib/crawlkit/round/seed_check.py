"""Seeds judged before a crawl begins."""

from __future__ import annotations

from collections.abc import Iterable

from crawlkit.config.whole import Config
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope
from crawlkit.stages.inject import read_lines


def judge_seeds(lines: Iterable[str], cfg: Config, now: float) -> tuple[int, list[str]]:
    """How many lines inject would take, and why it would refuse each of the others.

    now: Unix s, for calendars.
    """
    rows, rejects, _ = read_lines(
        lines,
        now=now,
        buckets=cfg.frontier.buckets,
        policy=UrlPolicy.of(cfg.urls),
        scope=Scope.of(cfg.scope, UrlPolicy.of(cfg.urls)),
    )
    return len(rows), [f"{r['reason']}: {r['detail']}: {r['item']:.120}" for r in rejects]
