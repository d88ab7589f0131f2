"""Probe adapter: rules.redirects over a web of given answers."""

from __future__ import annotations

from tests.conformance.topic_robots_fetch import answer

__all__ = ["answer"]
