"""A synthetic web whose right answer is known: at least 60 hosts and 3,000 URLs from a seed, served
on loopback.

    web = build(seed=7)                          # scale=0.1: 15 hosts, about 370 URLs, every
    feature
    with Process(folder, seed=7) as p:           # or Server(web, log) in a thread
        crawl(web.seeds, web.config_yaml(p.port))
    answer = expected(web, Policy(nows=every(600, 12)))
    differences(answer, {url: {"state": ..., "depth": ...}})
    judge(load_log(p.log), web, Delays(host_s=0.05, domain_s=0.025))

The model that `expected` follows:

- Round 1 fetches the seeds (depth 0). Round k fetches every URL that is known and due: found in an
  earlier round, or
  with `next_fetch` <= the round's now. Nothing limits a round. A link's target is one deeper than
  its page; the target
  of a redirect is as deep as the redirect, and is a row found for the next round, like a link.
- A URL deeper than `max_depth`, with a media or archive ending, in a calendar out of range, or with
  a segment more than
  three times over is refused when found: it is in `refused`, not in `rows`. So are links with
      rel=nofollow and all
  links of pages that say nofollow (meta, or X-Robots-Tag for every agent or for our token).
- States: 200 `fetched` (also if cut by length or by a disconnect in the body: `truncated`); 3xx
  `redirected`; a redirect
  that itself was reached over `max_redirects` hops: `chain_end_state`, its target unknown; 404,
      410, 451 and other 4xx
  `dead`; 403 `forbidden_state`, due after `forbidden_s`; 429 `retrying`, due after its Retry-After,
  or the first retry
  delay if that is longer; 5xx, resets and stalls before the end of the header `retrying`, due after
  the k-th of
  `retry_delays_s`, `given_up_state` at the failure after the last; what is no HTTP
  `malformed_state`;
  a path that robots.txt forbids `robots_skipped`; all of a host whose robots.txt is 5xx or 429
  `unreadable_state`,
  of a host that cannot be reached `unreachable_state` (neither is ever requested), of a name that
  does not exist `retrying`; image/png `binary_state`.
- A page is due again after its interval: `interval_s` at first, then x `changed_factor` or x
  `unchanged_factor`, within
  floor and ceiling. Changed: another text, or another body on a noindex page. A page with
  validators whose body is
  the same answers 304. Redirected and skipped URLs are due again after `interval_s`; dead and
  refused ones never.
- robots.txt is read again once its copy is `robots_ttl_s` old by the rounds' clock.
- noindex pages are fetched and have no text; their links are followed.
- Clusters: pages with text, equal in words or a planned near pair (Jaccard over 0.85), joined to
  components.

A row's `depth` is that of its first finding and `low_depth` the lowest ever; the plan keeps them
equal (a test checks).
"""

from tests.fakeweb.expect import Expected, Policy, Row, differences, every, expected
from tests.fakeweb.judge import Delays, Entry, Violations, counts, judge, load_log
from tests.fakeweb.plan import DAY_S, EPOCH, FakeWeb, Host, Link, Page
from tests.fakeweb.roles import build
from tests.fakeweb.server import Process, Server, set_day

__all__ = [
    "DAY_S",
    "EPOCH",
    "Delays",
    "Entry",
    "Expected",
    "FakeWeb",
    "Host",
    "Link",
    "Page",
    "Policy",
    "Process",
    "Row",
    "Server",
    "Violations",
    "build",
    "counts",
    "differences",
    "every",
    "expected",
    "judge",
    "load_log",
    "set_day",
]
