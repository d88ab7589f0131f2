"""The operator's verbs: what each one takes, checked and brought into one form."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, get_args

from crawlkit.config import Config
from crawlkit.config.content_sections import Category
from crawlkit.outcomes import Refused
from crawlkit.rules.frontier.claims import HINT_SOURCES
from crawlkit.rules.frontier.lifecycle import found_row
from crawlkit.rules.frontier.priority import parse_priority
from crawlkit.rules.url.canonical import canonicalize, host_of, url_key
from crawlkit.rules.url.domains import host_bucket, registered_domain
from crawlkit.rules.url.policy import UrlPolicy
from crawlkit.rules.url.scope import Scope, check_seed
from crawlkit.rules.url.seeds import metadata_json

MODES = ("keep", "update", "overwrite")
MAX_URLS = 10_000
MAX_TEXT_CHARS = 2000
MAX_DELAY_S = 86_400.0
NO_QUOTA = 10**9  # pages: more than any host gives
COLUMNS = ("command_id", "at", "verb", "target", "arguments", "actor")  # of `commands`
URL_VERBS = ("seeds", "recrawl", "hint", "boost")
HOST_VERBS = ("block", "unblock", "host_set", "complain")
ROUND_VERBS = ("pause", "resume", "abandon")
_HOST = re.compile(r"[^\x00-\x20/?#@\\:]{1,253}")
_ROUND = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9_.:+-]{1,80}")


class BadCommand(ValueError):
    """A command that cannot be done as given; the message names the field and the fix."""

    exit_code = 2


class Order(NamedTuple):
    """A checked command. `refused`: items that were left out, each with its reason."""

    verb: str
    target: str
    arguments: dict[str, Any]
    refused: list[dict[str, str]]


def check(verb: str, given: Mapping[str, Any], cfg: Config) -> Order:
    """A command in its one form. Raises BadCommand.

    seeds, recrawl, hint, boost: urls (a list), priority, boost; seeds: depth, mode, source, time,
    metadata too; hint: `source` if not an operator gives it (HINT_SOURCES), `feed` (the URL that is
    due in any case), `dates` (URL -> Unix s: due as of then; of the others new ones alone are
    taken). block, unblock, complain: host or domain, reason; complain: action (block or slow).
    host_set: host, delay_s, parallel, quota_max, cycle_quota_max, recrawl, weight (null or absent:
    as configured), exempt (an own site: what is left out is no delay and no quota; robots.txt
    holds). pause, resume, abandon: round_id.
    """
    if verb in URL_VERBS:
        return _urls(verb, given, cfg)
    if verb in HOST_VERBS:
        return _host(verb, given, cfg)
    if verb in ROUND_VERBS:
        round_id = given.get("round_id")
        if not isinstance(round_id, str) or not _ROUND.fullmatch(round_id):
            raise BadCommand("round_id: expected the name of a round")
        return Order(verb, round_id, {}, [])
    raise BadCommand(
        f"verb {verb!r:.40}: expected one of {', '.join((*URL_VERBS, *HOST_VERBS, *ROUND_VERBS))}"
    )


def _urls(verb: str, given: Mapping[str, Any], cfg: Config) -> Order:
    items = given.get("urls")
    if (
        not isinstance(items, list | tuple)
        or not items
        or not all(isinstance(u, str) for u in items)
    ):
        raise BadCommand("urls: expected a list of URLs, at least one")
    if len(items) > MAX_URLS:
        raise BadCommand(f"urls: {len(items)} of them; at most {MAX_URLS} at once")
    policy = UrlPolicy.of(cfg.urls)
    scope = Scope.of(cfg.scope, policy)
    urls: dict[str, None] = {}
    refused: list[dict[str, str]] = []
    for item in items:
        try:
            url = canonicalize(item.strip(), policy=policy)
            check_seed(url, 0, scope)
            urls[url] = None
        except Refused as e:
            refused.append(
                {
                    "url": item[:MAX_TEXT_CHARS],
                    "reason": str(e.reason),
                    "detail": e.detail[:MAX_TEXT_CHARS],
                }
            )
    if not urls:
        raise BadCommand(
            f"urls: none can be crawled: {refused[0]['reason']} {refused[0]['detail']}"
        )
    arguments: dict[str, Any] = {"urls": list(urls)}
    if given.get("priority") is not None:
        try:
            arguments["priority_class"] = parse_priority(str(given["priority"]))
        except ValueError as e:
            raise BadCommand(f"priority: {e}") from None
    if verb == "seeds":
        arguments |= _of_seeds(given)
    if verb == "hint" and given.get("source") in HINT_SOURCES:
        arguments |= {k: given[k] for k in ("source", "feed", "dates") if k in given}
    if verb == "boost":
        arguments["boost"] = _number(given, "boost", -100.0, 100.0)
        if arguments["boost"] is None:
            raise BadCommand("boost: expected points from -100 to 100")
    return Order(verb, next(iter(urls)), arguments, refused)


def _of_seeds(given: Mapping[str, Any]) -> dict[str, Any]:
    """depth, mode and metadata of seeds, as far as they are given. Raises BadCommand."""
    found: dict[str, Any] = {}
    if (depth := _number(given, "depth", 0, 1000)) is not None:
        found["depth"] = int(depth)
    if (mode := given.get("mode")) not in (None, "keep"):
        if mode not in MODES:
            raise BadCommand(f"mode: {mode!r:.40}: expected {', '.join(MODES)}")
        found["mode"] = mode
    more = given.get("metadata") or {}
    if not isinstance(more, Mapping) or not all(isinstance(k, str) for k in more):
        raise BadCommand("metadata: expected an object")
    named = {k: given[k] for k in ("source", "time") if given.get(k) is not None}
    try:
        text = metadata_json({**more, **named})
    except (Refused, TypeError, ValueError) as e:
        raise BadCommand(f"metadata: {e}") from None
    return found if text is None else found | {"metadata": text}


def _host(verb: str, given: Mapping[str, Any], cfg: Config) -> Order:
    kinds = [k for k in ("host", "domain") if given.get(k) is not None]
    if len(kinds) != 1 or (verb == "host_set" and kinds != ["host"]):
        raise BadCommand(
            "host: expected one host" if verb == "host_set" else "expected either host or domain"
        )
    name = host_name(given[kinds[0]], kinds[0])
    if kinds == ["domain"] and registered_domain(name) != name:
        raise BadCommand(
            f"domain: {name} is a host of {registered_domain(name)}; give it as host, or that"
            " domain"
        )
    arguments: dict[str, Any] = {"kind": kinds[0]}
    if verb == "host_set":
        return Order(verb, name, arguments | _policy(given), [])
    reason = given.get("reason") or ""
    if not isinstance(reason, str):
        raise BadCommand("reason: expected text")
    arguments["reason"] = reason[:MAX_TEXT_CHARS]
    if verb == "complain":
        action = given.get("action") or "block"
        if action not in ("block", "slow"):
            raise BadCommand("action: expected block or slow")
        if action == "slow" and kinds == ["domain"]:
            raise BadCommand("action: a domain can only be blocked; slow its hosts one by one")
        arguments |= {
            "action": action,
            "delay_s": cfg.politeness.max_delay_s if action == "slow" else None,
        }
    return Order(verb, name, arguments, [])


def _policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """The pace, quotas and category that host_set gives. Raises BadCommand."""
    delay_s = _number(given, "delay_s", 0.0, MAX_DELAY_S)
    parallel = _number(given, "parallel", 1, 100)
    quotas = {
        name: None if (pages := _number(given, name, 0, NO_QUOTA)) is None else int(pages)
        for name in ("quota_max", "cycle_quota_max")
    }
    if given.get("exempt"):  # an own site: no delay, and no quota that is reached
        delay_s = 0.0 if delay_s is None else delay_s
        quotas = {name: NO_QUOTA if pages is None else pages for name, pages in quotas.items()}
    recrawl = given.get("recrawl")
    if recrawl is not None and recrawl not in get_args(Category):
        raise BadCommand(f"recrawl: {recrawl!r:.40}: expected {', '.join(get_args(Category))}")
    pace = {"delay_s": delay_s, "parallel": 1 if parallel is None else int(parallel)}
    weight = _number(given, "weight", 0.0, 100.0)
    return pace | quotas | {"recrawl": recrawl, "weight": weight}


def host_name(text: Any, field: str = "host") -> str:
    """A host name in its canonical form. Raises BadCommand."""
    if isinstance(text, str) and "*" in text:
        raise BadCommand(
            f"{field}: {text!r:.80} is no host name: patterns are not understood; a registered"
            " domain, given as such, covers all its hosts"
        )
    try:
        if isinstance(text, str) and _HOST.fullmatch(text.strip()):
            url = canonicalize(f"http://{text.strip()}/")
            if url == f"http://{host_of(url)}/":
                return host_of(url)
    except Refused:
        pass
    raise BadCommand(
        f"{field}: {text!r:.80} is no host name; give it without scheme, port and path"
    )


def _number(given: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not least <= value <= most
    ):
        raise BadCommand(f"{name}: expected a number from {least:g} to {most:g}")
    return value


def found_rows(
    orders: Iterable[Mapping[str, Any]],
    now: float,
    buckets: int,
    doubted: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Rows of `crawldb_log` (without round) that the URL verbs bring into the frontier, in order.

    orders: verb and arguments. A hint makes a known URL due; a recrawl also wakes dead and refused
    ones (`force`). doubted: hosts of which hints of others than operators make nothing due
    (rules/frontier/claims.py).
    """
    rows: list[dict[str, Any]] = []
    for order in orders:
        verb, args = order["verb"], order["arguments"]
        given = args.get("priority_class")
        for url in args["urls"]:
            host = host_of(url)
            domain = registered_domain(host)
            source = args.get("source") or _SOURCES.get(verb, "operator")
            row = found_row(
                url,
                url_key(url),
                host,
                domain,
                host_bucket(domain, buckets),
                source=source,
                now=now,
                priority_class=1 if given is None else given,
                boost=args.get("boost", 0.0),
                depth=args.get("depth", 0),
                metadata=args.get("metadata"),
            )
            changes = verb == "boost" or (given is not None and verb != "seeds")
            mode = "update" if changes else args.get("mode", "keep")
            if verb == "boost" and given is None:
                row["priority_class"] = (
                    3  # the lesser number of the two holds: that of a known URL stays
                )
            rows.append(
                row
                | {
                    "kind": "found",
                    "seq": len(rows),
                    "force": verb == "recrawl",
                    "mode": mode,
                    "due_at": _due_at(verb, url, args, now, host in doubted),
                }
            )
    return rows


_SOURCES = {"seeds": "seed", "hint": "hint"}


def _due_at(
    verb: str, url: str, args: Mapping[str, Any], now: float, is_doubted: bool
) -> float | None:
    """As of when an order makes a known URL due, if it does. A date to come is no evidence."""
    if verb not in ("recrawl", "hint"):
        return None
    if verb == "recrawl" or "source" not in args or url == args.get("feed"):
        return now
    if is_doubted or "dates" not in args:
        return None if is_doubted else now
    at: float | None = args["dates"].get(url)
    return at if at is not None and at <= now else None
