"""Probe adapter: rules.scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlkit.config import ScopeConfig
from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import canonicalize
from crawlkit.rules.url.scope import Scope, scope_reason


def answer(given: dict[str, Any], case_dir: Path) -> dict[str, Any]:
    scope = Scope.of(ScopeConfig(**given["scope"]))
    try:
        reason = scope_reason(canonicalize(given["url"]), given.get("depth") or 0, scope, 2026)
    except Refused as refused:
        reason = refused.reason
    return {"in_scope": reason is None, "refused": reason is not None, "reason": reason}
