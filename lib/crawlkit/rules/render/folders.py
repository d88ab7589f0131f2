"""What the renders of a host brought, by the first folder of their URLs' paths: pages that one
program makes are mostly in one folder, and gain all or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

MAX_FOLDERS = 50  # of a host that are counted: those with the most renders
PROBES = 3  # renders after which some of them must have gained
MIN_GAINS = 0.1  # of the renders
RETRY_DAYS = 30  # after which a folder that gained nothing is tried as if it were new: sites change
DAY_S = 86_400


class Count(NamedTuple):
    """Renders of a folder, how many of them gained text or links, and the day (since 1970) of the
    last.
    """

    renders: int
    gains: int
    day: int = 0

    @property
    def is_worth(self) -> bool | None:
        """Whether its pages are to be rendered; None: too few were."""
        if self.renders < PROBES:
            return None
        return self.gains >= MIN_GAINS * self.renders


def folder_sql(url: str) -> str:
    """The first folder of a canonical URL's path, `/` where it has none, as SQL."""
    return f"regexp_extract({url}, '^[a-z]+://[^/]+(/[^/?]+/|/)', 1)"


def read_folders(text: str | None) -> dict[str, Count]:
    """What `write_folders` wrote."""
    return {name: Count(*counts) for name, counts in json.loads(text or "{}").items()}


def write_folders(folders: dict[str, Count]) -> str | None:
    """As JSON; None: nothing was rendered."""
    return json.dumps(folders, sort_keys=True) if folders else None


def forget_folders(known: dict[str, Count], now: float) -> dict[str, Count]:
    """The counts without those of folders that gained nothing and whose last render was RETRY_DAYS
    ago. now: Unix s.
    """
    since = now // DAY_S - RETRY_DAYS
    return {n: c for n, c in known.items() if c.is_worth is not False or c.day > since}


def add_folders(known: dict[str, Count], new: Iterable[str], now: float) -> dict[str, Count]:
    """The counts with those of a round: lines of renders, gains and folder, parted by spaces."""
    total = dict(known)
    for line in new:
        renders, gains, folder = line.split(" ", 2)
        before = total.get(folder, Count(0, 0))
        after = before.renders + int(renders), before.gains + int(gains)
        total[folder] = Count(*after, int(now // DAY_S))
    most = sorted(total, key=lambda name: (-total[name].renders, name))[:MAX_FOLDERS]
    return {name: total[name] for name in sorted(most)}
