"""What visits teach of a host's class: news, where several pages a day are new; dormant, where
nothing has changed for long.

A page is new if it was first fetched within a day of the date that it gives, or if it is an entry
that a feed named when the host had been known for a day (REQUIREMENTS B2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from crawlkit.config import Schedule
from crawlkit.rules.frontier.claims import kept_share

DAY_S = 86_400.0
HALF_LIFE_S = 7 * DAY_S
STILL_VISITS = 10  # unchanged pages in a row that tell a dormant host from one hardly visited


class Activity(NamedTuple):
    """What visits of a host brought. Times are Unix s.

    news: pages that were new, halved in HALF_LIFE_S, as of `news_at`. changed_at: last round with a
    change or a new page. still: visits since then that found a page unchanged.
    """

    news: float = 0.0
    news_at: float | None = None
    changed_at: float | None = None
    still: int = 0

    def after(self, new: int, changed: int, still: int, now: float) -> Activity:
        """After a round: new pages, pages that changed, pages that did not."""
        news = self.news * kept_share(self.news_at, now, HALF_LIFE_S) + new
        if new or changed or self.changed_at is None:
            return Activity(news, now, now, 0)
        return Activity(news, now, self.changed_at, self.still + still)


def learn_class(activity: Activity, first_seen: float, now: float, cfg: Schedule) -> str:
    """`news`, `dormant` or `generic` of a host known since `first_seen`."""
    if not cfg.learn_classes:
        return "generic"
    age_s = max(now - first_seen, 0.0)
    # what one new page a day adds up to in that time
    days = HALF_LIFE_S / math.log(2) * (1 - 0.5 ** (age_s / HALF_LIFE_S)) / DAY_S
    if activity.news * kept_share(
        activity.news_at, now, HALF_LIFE_S
    ) >= cfg.news_pages_per_day * max(days, 1.0):
        return "news"
    since_s = 0.0 if activity.changed_at is None else now - activity.changed_at
    is_still = activity.still >= STILL_VISITS and since_s >= cfg.dormant_days * DAY_S
    return "dormant" if is_still else "generic"
