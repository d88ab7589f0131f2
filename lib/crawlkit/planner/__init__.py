"""Machines, bandwidth, storage and cost of a crawl, computed from a target."""
