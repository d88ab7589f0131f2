"""Parameter rules of hosts (C3): those that pages propose and those in force, accepted and taken
back in the crawl's crawl.yaml.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from crawlkit.adapters.store.objects import ObjectMissing
from crawlkit.adapters.store.open_store import open_objects
from crawlkit.config.edit import with_key
from crawlkit.crawl.kept_settings import FILE, settings_of
from crawlkit.crawl.state import Crawl
from crawlkit.rules.frontier.command_rules import BadCommand, host_name
from crawlkit.tables import TABLES

MAX_NAME_CHARS = 200


def list_rules(crawl: Crawl) -> list[dict[str, Any]]:
    """Rows of `param_rules` with `in_force`, and the rules in force that none proposes; by host and
    name.
    """
    in_force = {
        (host.lower(), name.lower())
        for host, names in settings_of(crawl.data).config.urls.host_params.items()
        for name in names
    }
    columns = TABLES["param_rules"].column_names
    rows = crawl.plain_tables().rows("param_rules", columns)
    rows = [r | {"in_force": (r["host"], r["name"]) in in_force} for r in rows]
    nothing = dict.fromkeys(columns) | {"examples": [], "in_force": True}
    others = in_force - {(r["host"], r["name"]) for r in rows}
    rows += [nothing | {"host": host, "name": name} for host, name in others]
    return sorted(rows, key=lambda r: (r["host"], r["name"]))


def change_rule(crawl: Crawl, host: str, name: str, accept: bool, actor: str) -> dict[str, Any]:
    """Put a rule into urls.host_params of crawl.yaml, or take it out; a row of `commands` says who.

    It holds from the next command on the crawl. Raises BadCommand, LockHeld.
    """
    host, name = host_name(host), name.strip().lower()
    if not name or len(name) > MAX_NAME_CHARS:
        raise BadCommand(f"name: {name!r:.60} is no name of a parameter")
    store = open_objects(str(crawl.data), crawl.cfg.s3)
    with crawl.commands_lock() as lock:
        rules = dict(settings_of(crawl.data).config.urls.host_params)
        names = [n for n in rules.pop(host, ()) if n.lower() != name]
        names += [name] if accept else []
        kept = {h: list(n) for h, n in rules.items()} | ({host: names} if names else {})
        try:
            text = store.get(FILE)[0].decode("utf-8-sig", "replace")
        except ObjectMissing:
            text = ""
        store.put(FILE, with_key(text, "urls", "host_params", kept).encode())
        verb = "params_accept" if accept else "params_take_back"
        row = {"command_id": uuid.uuid4().hex, "at": time.time(), "verb": verb, "target": host}
        more = {"arguments": json.dumps({"name": name}), "actor": actor[:200]}
        crawl.plain_tables(lock).append("commands", [row | more])
    return {"host": host, "name": name, "in_force": accept, "names": names}
