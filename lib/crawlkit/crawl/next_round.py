"""Which round comes next."""

from __future__ import annotations

from crawlkit.adapters.store.flock import LockHeld
from crawlkit.adapters.store.stop_list import read_orders
from crawlkit.crawl.abandon import finish_abandoned
from crawlkit.crawl.state import Crawl
from crawlkit.model import Round


def next_round(
    crawl: Crawl, now: float, round_id: str | None = None, resume: str | None = ""
) -> Round:
    """The round to run next.

    The round of that name if there is one; else the oldest open round that no living process
    drives; else a new one of that name.

    Args:
        now: nominal time of a new round, Unix s.
        round_id: its name.
        resume: only open rounds whose names start so are resumed; None: none.
    """
    crawl.repair()
    if resume is not None and round_id not in crawl.round_ids():
        for r in crawl.open_rounds():
            if r.id.startswith(resume) and _is_free(crawl, r):
                return r
    return crawl.open_round(now, round_id)


def refuse_busy(crawl: Crawl) -> None:
    """Raises LockHeld if another process drives a round of the crawl."""
    for r in crawl.open_rounds():
        try:
            with crawl.driver_lock(r):
                pass
        except LockHeld as e:
            raise LockHeld(
                f"{crawl.data} is being crawled: {e}. `crawlkit status --data {crawl.data}` shows"
                " what it does"
            ) from None


def free_rounds(crawl: Crawl) -> list[Round]:
    """Open rounds that no living process drives, oldest first."""
    return [r for r in crawl.open_rounds() if _is_free(crawl, r)]


def _is_free(crawl: Crawl, round_: Round) -> bool:
    """Whether a round can be resumed; an abandoned one that nobody drives is closed.

    An import is gone on with by the command that began it: it needs the files.
    """
    try:
        with crawl.driver_lock(round_):
            if round_.id in read_orders(crawl.objects).abandoned:
                finish_abandoned(crawl, round_, wait=True, driving=True)
                return False
            return not round_.imported
    except LockHeld:
        return False
