"""Headless Chromium through Playwright: a pool of browsers, each with one page at a time.

A browser has no network: all names resolve to nothing, its proxy is a name that is not there, and
each request of a page is intercepted and answered by the caller or refused. Imported by
`rendering.open_browsers` alone: playwright is an optional package.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Page, Playwright, async_playwright

from crawlkit.adapters.browser.page_visit import TICK_S, PageVisit
from crawlkit.adapters.browser.processes import find_processes, kill_processes, memory_bytes
from crawlkit.adapters.browser.rendering import AnswerRequest, Rendered, StoredPage
from crawlkit.config import Agent, Render
from crawlkit.outcomes import Reason
from crawlkit.rules.url.canonical import host_of

CLOSE_S = 3.0
LAUNCH_S = 30.0
MEMORY_TICKS = 3
_MAYBE_DIED = (Reason.RENDER_CRASH, Reason.RENDER_TIMEOUT)  # of the driver's page too
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
        """As `Renders.render`; waits for a free browser. A page whose driver died is begun anew,
        once.
        """
        one = await self._free.get()
        start = time.monotonic()
        try:
            driver = await self._running_driver()
            rendered = await one.render(driver, page, answer, screenshot)
            if rendered.reason in _MAYBE_DIED and await self._has_died(driver):
                driver = await self._running_driver()
                rendered = await one.render(driver, page, answer, screenshot)
            rendered.render_ms = round((time.monotonic() - start) * 1000)
            return rendered
        finally:
            self._free.put_nowait(one)

    async def _running_driver(self) -> Playwright:
        async with self._starting:
            if self._driver is None:
                asyncio.get_running_loop().set_exception_handler(_ignore_ended_pages)
                self._driver = await async_playwright().start()
            return self._driver

    async def _has_died(self, driver: Playwright) -> bool:
        """Whether a driver does not answer any more; the next page gets a new one then."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await (await driver.request.new_context()).dispose()
        except Exception:
            async with self._starting:
                if self._driver is driver:
                    self._driver = None
                    await _stop(driver)
            return True
        return False

    async def close(self) -> None:
        """As `Renders.close`."""
        for one in self._all:
            await one.end()
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await _stop(driver)


async def _stop(driver: Playwright) -> None:
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
        self._driver: Playwright | None = None  # that has started it
        self._pages = 0

    async def render(
        self, driver: Playwright, page: StoredPage, answer: AnswerRequest, screenshot: bool
    ) -> Rendered:
        """Render one page. A browser that does not let go of it is ended."""
        if self._pages >= self._cfg.recycle_pages:
            await self.end()
        visit = PageVisit(self._cfg, page, answer)
        try:
            async with asyncio.timeout(LAUNCH_S + CLOSE_S):  # of a driver that died none says so
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
        except Exception as e:  # a driver that died raises Exception itself
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
        is_running = self._browser is not None and self._browser.is_connected()
        if self._browser is None or not is_running or self._driver is not driver:
            await self.end(at_once=True)
            self._driver = driver
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

    async def _watch(self, visit: PageVisit, work: asyncio.Future[None]) -> Reason | None:
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

    async def _visit(self, browser: Browser, visit: PageVisit, screenshot: bool) -> None:
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
