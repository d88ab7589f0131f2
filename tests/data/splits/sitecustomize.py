"""Loaded by every Python process of a crawl whose PYTHONPATH names this folder: a round is split in
two wherever hosts differ at all, however little that would win.
"""

from crawlkit.rules.frontier.overlap import buckets_beside

buckets_beside.__defaults__ = (1.0, 0.0)
