"""One page in a browser, through Playwright: its requests, its time, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from playwright.async_api import Error, Page, Route

from crawlkit.adapters.browser.rendering import AnswerRequest, PageRequest, Rendered, StoredPage
from crawlkit.config import Render
from crawlkit.outcomes import Reason
from crawlkit.rules.http.content_coding import decode_body

log = logging.getLogger(__name__)
TICK_S = 0.1
ANSWERED = frozenset({"script", "xhr", "fetch"})
QUIET_S = 0.5  # without a request under way, after which a page is done
# each refusal costs the driver, which all pages share; a page of a thousand images is one
MAX_REFUSED = 1000
MAX_LEFT = 20
# in a world of its own, whose functions the page cannot replace
_HTML = """(() => {
    const roots = [];
    const walk = node => { for (const e of node.querySelectorAll('*'))
        if (e.shadowRoot) { roots.push(e.shadowRoot); walk(e.shadowRoot); } };
    walk(document);
    const root = document.documentElement;
    const escape = text => text.replace(/&/g, '&amp;').replace(/"/g, '&quot;');
    const attributes = [...root.attributes].map(a => ` ${a.name}="${escape(a.value)}"`).join('');
    const html = `<!DOCTYPE html><html${attributes}>${root.getHTML({shadowRoots: roots})}</html>`;
    return html.slice(0, LIMIT);
})()"""
_SCROLL = """(() => {
    const root = document.scrollingElement || document.documentElement;
    const seen = [root.scrollHeight, document.links.length, root.scrollHeight > innerHeight];
    window.scrollTo(0, root.scrollHeight);
    return seen;
})()"""
_DROPPED = frozenset(
    "content-encoding content-length transfer-encoding connection set-cookie keep-alive".split()
)


class PageVisit:
    """One page in its browser: its requests, its time, its end."""

    def __init__(self, cfg: Render, page: StoredPage, answer: AnswerRequest) -> None:
        self.page, self.out, self.over = page, Rendered(), False
        self.spent_s = self.total_s = 0.0
        self._cfg, self._answer = cfg, answer
        self._is_given = False
        self._waiting = 0
        self._bytes = 0
        self._refused = 0
        self._is_stopped = False
        self._quiet_s = 0.0

    def count(self, seconds: float) -> None:
        """Time has passed: the page's own, if it waits for no request."""
        self.total_s += seconds
        self._quiet_s = 0.0 if self._waiting else self._quiet_s + seconds
        if not self._waiting:
            self.spent_s += seconds

    async def route(self, route: Route) -> None:
        """Answer or refuse one request of the page."""
        try:
            await self._route(route)
        except Error:
            return  # the page is gone
        except Exception as e:
            log.warning("a request of %s: %s", self.page.url, e)

    async def _route(self, route: Route) -> None:
        request = route.request
        if not self._is_given and request.is_navigation_request():
            self._is_given = True
            await self._fulfill(route, 200, self.page.headers, self.page.body)
            return
        kind = request.resource_type
        if kind not in ANSWERED or self.over or not request.url.startswith("http"):
            is_navigation = request.is_navigation_request()
            name = "navigation" if is_navigation else kind
            self._refused += 1
            self.out.blocked[name] = self.out.blocked.get(name, 0) + 1
            if is_navigation:  # 204: the page stays as it is (HTML Standard 7.4.5)
                await route.fulfill(status=204)
            else:
                await route.abort("blockedbyclient")
            return
        await self._ask(route, PageRequest(request.url, request.method, kind))

    async def _ask(self, route: Route, request: PageRequest) -> None:
        if self.out.requests >= self._cfg.requests or self._bytes >= self._cfg.body_bytes:
            self.out.detail = f"{Reason.RENDER_LIMIT}: requests or bytes"
            self._refused += 1
            await route.abort("blockedbyclient")
            return
        self.out.requests += 1
        self._waiting += 1
        try:
            answer = await self._answer(request)
        finally:
            self._waiting -= 1
            self._quiet_s = 0.0
        if answer is None or answer.status is None:
            await route.abort("failed")
            return
        left = self._cfg.body_bytes - self._bytes
        body = decode_body(answer.body, answer.headers, max(left, 1)).body
        self._bytes += len(body)
        await self._fulfill(route, answer.status, answer.headers, body)

    async def _fulfill(
        self, route: Route, status: int, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        kept: dict[str, str] = {}
        for name, value in headers:
            low = name.lower()
            if low not in _DROPPED:
                kept[low] = f"{kept[low]}, {value}" if low in kept else value
        await route.fulfill(status=status, headers=kept, body=body)

    async def run(self, page: Page, screenshot: bool) -> None:
        """Load the page, let it come to rest, scroll it, and keep its document."""
        with contextlib.suppress(Error):
            await page.goto(self.page.url, wait_until="commit", timeout=0)
        session = await page.context.new_cdp_session(page)
        await self._rest(session)
        world = await self._world(session)
        await self._scroll(session, world)
        await self._stop_scripts(session)
        limit = str(self._cfg.body_bytes)
        html = await self._evaluate(session, world, _HTML.replace("LIMIT", limit))
        self.out.html = str(html).encode("utf-8", "replace")
        if self._is_late:
            self.out.detail = self.out.detail or "cut off: the page did not come to rest"
        if screenshot:
            self.out.screenshot = await page.screenshot()

    async def _scroll(self, session: Any, world: int) -> None:
        """Scroll to the page's end as long as it grows, within the limits."""
        first: list[Any] | None = None
        before = None
        for _ in range(self._cfg.scrolls):
            seen = await self._evaluate(session, world, _SCROLL)
            if self._is_late or not seen or not seen[2] or seen == before:
                return
            first, before = first or seen, seen
            if seen[1] - first[1] >= self._cfg.scroll_links:
                return
            await self._rest(session)

    @property
    def _is_late(self) -> bool:
        is_over = self.spent_s >= self._cfg.timeout_s or self.total_s >= self._cfg.wait_s
        return is_over or self._is_stopped

    async def _rest(self, session: Any) -> None:
        """Returns when the page has loaded and asks for nothing, or its time is over."""
        self._quiet_s = 0.0
        while not self._is_late and self._quiet_s < QUIET_S:
            await asyncio.sleep(TICK_S)
            if self._refused >= MAX_REFUSED or self.out.blocked.get("navigation", 0) >= MAX_LEFT:
                self.out.detail = f"{Reason.RENDER_LIMIT}: requests that were refused"
                await self._stop_scripts(session)

    async def _stop_scripts(self, session: Any) -> None:
        self._is_stopped = True
        await session.send("Emulation.setScriptExecutionDisabled", {"value": True})

    async def _world(self, session: Any) -> int:
        tree = await session.send("Page.getFrameTree")
        made = await session.send(
            "Page.createIsolatedWorld", {"frameId": tree["frameTree"]["frame"]["id"]}
        )
        return int(made["executionContextId"])

    async def _evaluate(self, session: Any, world: int, expression: str) -> Any:
        got = await session.send(
            "Runtime.evaluate",
            {"expression": expression, "contextId": world, "returnByValue": True},
        )
        return got["result"].get("value")
