"""Benchmarks: `make bench` runs them all, `python -m bench NAME` one.

Results stand in bench/results.
"""
