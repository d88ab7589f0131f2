"""Steering a crawl: the operator's commands, rounds paused and given up, the control API."""
