"""Errors of tasks of the local engine. Loads nothing."""

from __future__ import annotations


class TaskFailed(RuntimeError):
    """A task failed in all its tries; the text is "module.Class: message" of its last error."""


class WorkersGone(RuntimeError):
    """The process that forks workers cannot be started."""

    exit_code = 1
