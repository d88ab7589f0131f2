"""Probe adapter: rules.feeds."""

from __future__ import annotations

from tests.conformance.topic_sitemaps import answer

__all__ = ["answer"]
