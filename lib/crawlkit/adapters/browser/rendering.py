"""What goes into a browser and comes out of it, and the way to one (docs/rendering.md)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Protocol

from crawlkit.config import Agent, Render
from crawlkit.model import Answer
from crawlkit.outcomes import Reason

CHROMIUM_VARIABLE = "CRAWLKIT_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")


@dataclass(frozen=True)
class StoredPage:
    """The document to render: what was stored, its content codings undone."""

    url: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class PageRequest:
    """A request of the page's scripts. kind: script, xhr or fetch."""

    url: str
    method: str
    kind: str


@dataclass
class Rendered:
    """What became of a page.

    html: its document at the end (UTF-8). reason: why there is none. detail: which limit ended
    it. blocked: requests that the page may not make, by kind. screenshot: PNG, where one was asked
    for. render_ms: from the browser's start of the page to its end, waits for requests in it.
    """

    html: bytes = b""
    reason: Reason | None = None
    detail: str | None = None
    requests: int = 0
    blocked: dict[str, int] = field(default_factory=dict)
    screenshot: bytes | None = None
    render_ms: int = 0


# None: the request is refused
AnswerRequest = Callable[[PageRequest], Awaitable[Answer | None]]


class Renders(Protocol):
    """The seam to a pool of browsers."""

    async def render(
        self, page: StoredPage, answer: AnswerRequest, *, screenshot: bool = False
    ) -> Rendered:
        """Render a page whose requests `answer` answers. Raises nothing that the page causes."""

    async def close(self) -> None:
        """End all browsers; no process is left."""


class BrowserMissing(RuntimeError):
    """Rendering is asked for, and the package or the browser is not there."""

    exit_code = 2


def find_chromium(render: Render) -> Path | None:
    """The Chromium to run: the setting's, the variable's, the one of `make setup-render`, one on
    PATH; None if there is none.
    """
    named = render.chromium or os.environ.get(CHROMIUM_VARIABLE, "")
    if named:
        return Path(named) if os.access(named, os.X_OK) else None
    own = own_chromium()
    if os.access(own, os.X_OK):
        return own
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    return Path(found) if found else None


def own_chromium() -> Path:
    """Where `make setup-render` puts its Chromium."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "crawlkit" / "chromium"


def open_browsers(render: Render, agent: Agent) -> Renders:
    """A pool of `render.browsers`, none of them started. Raises BrowserMissing."""
    path = find_chromium(render)
    if path is None:
        raise BrowserMissing(
            "no Chromium to render with: `make setup-render` gets one, or set render.chromium"
        )
    try:
        module = import_module("crawlkit.adapters.browser.chromium")
    except ImportError as e:
        raise BrowserMissing(
            f"rendering needs the package playwright (pip install crawlkit[render]): {e}"
        ) from None
    made: Renders = module.Browsers(path, render, agent)
    return made
