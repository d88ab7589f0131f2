"""How a URL comes to its canonical form, step by step, for people who ask why (`crawlkit
explain`).
"""

from __future__ import annotations

from typing import NamedTuple

import ada_url

from crawlkit.config import Urls
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize


class Step(NamedTuple):
    """One rewriting that changed something, and the URL after it."""

    what: str
    url: str


_PLAIN = Urls(remove_tracking=False, remove_session=False)
# each further setting, in this order, on top of those before it
_SETTINGS = (
    ("session parameters removed", ("remove_session", "extra_session")),
    ("tracking parameters removed", ("remove_tracking", "extra_tracking")),
    ("parameters of urls.host_params removed", ("host_params",)),
    ("equal pairs kept once", ("collapse_repeats",)),
    ("route fragment kept", ("keep_route_fragments",)),
    ("www. dropped", ("fold_www",)),
    ("index page dropped", ("fold_index",)),
    ("final slash dropped", ("fold_slash",)),
)


def rewriting_steps(url: str, urls: Urls) -> list[Step]:
    """The rewritings that change `url`, in order; the last one's URL is `canonicalize(url,
    policy)`. Raises Refused.
    """
    final = canonicalize(url, policy=UrlPolicy.of(urls))
    stages = [("as the URL Standard writes it (WHATWG URL 4.4)", ada_url.URL(url).href)]
    plain = canonicalize(url, policy=UrlPolicy.of(_PLAIN))
    without_fragment = stages[0][1].partition("#")[0]
    stages += [
        ("fragment removed", without_fragment),
        ("credentials, default port, escapes and order of parameters made uniform", plain),
    ]
    given = _PLAIN
    for what, names in _SETTINGS:
        given = given.model_copy(update={n: getattr(urls, n) for n in names})
        stages.append((what, canonicalize(url, policy=UrlPolicy.of(given))))
    stages.append(("final form", final))
    steps, now = [], url
    for what, after in stages:
        if after != now:
            steps.append(Step(what, after))
            now = after
    return steps
