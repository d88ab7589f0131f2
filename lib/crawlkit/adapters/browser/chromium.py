"""Headless Chromium through Playwright: a pool of browsers, each with one page at a time.

A browser has no network: all names resolve to nothing, its proxy is a name that is not there, and
each request of a page is intercepted and answered by the caller or refused. Imported by
`rendering.open_browsers` alone: playwright is an optional package.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Page, Playwright, Route, async_playwright

from crawlkit.adapters.browser.processes import find_processes, kill_processes, memory_bytes
from crawlkit.adapters.browser.rendering import AnswerRequest, PageRequest, Rendered, StoredPage
from crawlkit.config import Agent, Render
from crawlkit.outcomes import Reason
from crawlkit.rules.http.content_coding import decode_body
from crawlkit.rules.url.canonical import host_of

log = logging.getLogger(__name__)
ANSWERED = frozenset({"script", "xhr", "fetch"})
TICK_S = 0.1
QUIET_S = 0.5  # without a request under way, after which a page is done
CLOSE_S = 3.0
LAUNCH_S = 30.0
MEMORY_TICKS = 3
# each refusal costs the driver, which all pages share; a page of a thousand images is one
MAX_REFUSED = 1000
MAX_LEFT = 20
VIEWPORT = {"width": 1280, "height": 1600}
_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=socks5://none.invalid:1",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-background-networking",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--dns-prefetch-disable",
    "--no-pings",
    "--no-sandbox",  # containers forbid the namespaces that it needs
)
_NOT_THERE = "".join(
    f"delete window.{name};"
    for name in ("RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport")
)
_QUIET_SCRIPT = f"{_NOT_THERE} window.open = () => null; window.print = () => undefined;"
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


class Browsers:
    """A pool. Only one event loop may use it."""

    def __init__(self, path: Path, render: Render, agent: Agent) -> None:
        self._driver: Playwright | None = None
        self._starting = asyncio.Lock()
        self._free: asyncio.LifoQueue[OneBrowser] = asyncio.LifoQueue()
        self._all = [OneBrowser(path, render, agent) for _ in range(render.browsers)]
        for one in self._all:
            self._free.put_nowait(one)

    async def render(
        self, page: StoredPage, answer: AnswerRequest, *, screenshot: bool = False
    ) -> Rendered:
        """As `Renders.render`; waits for a free browser."""
        async with self._starting:
            if self._driver is None:
                asyncio.get_running_loop().set_exception_handler(_ignore_ended_pages)
                self._driver = await async_playwright().start()
        one = await self._free.get()
        start = time.monotonic()
        try:
            rendered = await one.render(self._driver, page, answer, screenshot)
            rendered.render_ms = round((time.monotonic() - start) * 1000)
            return rendered
        finally:
            self._free.put_nowait(one)

    async def close(self) -> None:
        """As `Renders.close`."""
        for one in self._all:
            await one.end()
        if self._driver is not None:
            driver, self._driver = self._driver, None
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_S):
                    await driver.stop()


def _ignore_ended_pages(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Playwright leaves futures of a page behind that was ended: no fault of anybody's."""
    if not isinstance(context.get("exception"), Error):
        loop.default_exception_handler(context)


class OneBrowser:
    """A browser that is started when a page comes, and replaced after so many."""

    def __init__(self, path: Path, render: Render, agent: Agent) -> None:
        self._path, self._cfg, self._agent = path, render, agent
        self._mark = ""
        self._browser: Browser | None = None
        self._pages = 0

    async def render(
        self, driver: Playwright, page: StoredPage, answer: AnswerRequest, screenshot: bool
    ) -> Rendered:
        """Render one page. A browser that does not let go of it is ended."""
        if self._pages >= self._cfg.recycle_pages:
            await self.end()
        visit = _Visit(self._cfg, page, answer)
        try:
            browser = await self._started(driver)
            self._pages += 1
            work = asyncio.ensure_future(self._visit(browser, visit, screenshot))
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
            try:
                reason = await self._watch(visit, work)
            finally:
                if not work.done():
                    work.cancel()
                    await self.end(at_once=True)
                    await asyncio.wait([work], timeout=CLOSE_S)
            if reason is not None:
                visit.out.html, visit.out.reason = b"", reason
            else:
                await work
        except (Error, OSError, TimeoutError, AssertionError) as e:
            await self.end(at_once=True)
            visit.out.html, visit.out.reason = b"", Reason.RENDER_CRASH
            visit.out.detail = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[
                :200
            ]
        return visit.out

    async def end(self, at_once: bool = False) -> None:
        """End the browser and all its processes."""
        browser, self._browser, self._pages = self._browser, None, 0
        if self._mark:
            if at_once:
                kill_processes(self._mark)
            if browser is not None:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(CLOSE_S):
                        await browser.close()
            kill_processes(self._mark)
            self._mark = ""

    async def _started(self, driver: Playwright) -> Browser:
        if self._browser is None or not self._browser.is_connected():
            await self.end(at_once=True)
            self._mark = f"--crawlkit-browser={uuid.uuid4().hex}"
            self._browser = await driver.chromium.launch(
                executable_path=self._path,
                args=[*_ARGUMENTS, self._mark],
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
                timeout=LAUNCH_S * 1000,
            )
        return self._browser

    async def _watch(self, visit: _Visit, work: asyncio.Future[None]) -> Reason | None:
        """Wait for the page's end; why the browser is to be ended before it."""
        grace_s = CLOSE_S
        pids: set[int] = set()
        tick = 0
        while not work.done():
            await asyncio.wait([work], timeout=TICK_S)
            visit.count(TICK_S)
            if visit.spent_s > self._cfg.timeout_s + grace_s:
                return Reason.RENDER_TIMEOUT
            if visit.total_s > self._cfg.wait_s + self._cfg.timeout_s + grace_s:
                return Reason.RENDER_TIMEOUT
            if tick % MEMORY_TICKS == 0:
                pids = find_processes(self._mark) if tick % 30 == 0 else pids
                if memory_bytes(pids) > self._cfg.memory_bytes:
                    return Reason.RENDER_MEMORY
            tick += 1
        return None

    async def _visit(self, browser: Browser, visit: _Visit, screenshot: bool) -> None:
        context = await browser.new_context(
            user_agent=self._agent.user_agent_of(host_of(visit.page.url)),
            service_workers="block",
            accept_downloads=False,
            viewport=VIEWPORT,  # type: ignore[arg-type]
            permissions=[],
        )
        try:
            await context.add_init_script(_QUIET_SCRIPT)
            await context.route("**/*", visit.route)
            await context.route_web_socket("**/*", lambda ws: ws.close())
            page = await context.new_page()
            context.on("page", _close_later)
            await visit.run(page, screenshot)
        finally:
            visit.over = True
            async with asyncio.timeout(CLOSE_S):
                await context.close()


def _close_later(popup: Page) -> None:
    async def close() -> None:
        with contextlib.suppress(Error):
            await popup.close()

    task = asyncio.ensure_future(close())
    task.add_done_callback(lambda _: None)


class _Visit:
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
        with contextlib.suppress(Error):
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
