"""Five hundred pages that fill memory: what the pool holds does not grow with their number."""

from __future__ import annotations

import asyncio
from statistics import median

import pytest
from crawlkit.adapters.browser.processes import find_processes, memory_bytes
from crawlkit.adapters.browser.rendering import PageRequest, Rendered, StoredPage, open_browsers
from crawlkit.config import Agent, Render
from crawlkit.model import Answer

from tests.adapters.browser.chromium import chromium, left_processes

pytestmark = pytest.mark.slow
PAGES, EACH_S = 500, 60
HTML = [("Content-Type", "text/html")]
KINDS = (
    "<p id=p>x</p><script src=/s.js></script>",
    # 20 MiB of strings that a timer keeps
    "<p>x</p><script>kept = Array.from({length: 20}, (_, i) => String(i).repeat(1 << 20));"
    " setInterval(() => kept.length, 10)</script>",
    "<div id=d></div><script>d.innerHTML = '<p><b>word</b> and word</p>'.repeat(5000)</script>",
    "<p>x</p><script>for (;;) window.dispatchEvent(new Event('x'), kept = [])</script>",
    "<p>x</p><script>setTimeout(() => location.reload(), 50)</script>",
    "<p>x</p><script>throw new Error('x'.repeat(1 << 20))</script>",
)


def test_five_hundred_pages() -> None:
    cfg = Render(chromium=chromium(), browsers=2, timeout_s=2)
    held: list[int] = []  # bytes of browsers and driver, after each page
    ends: list[Rendered] = []

    async def reply(request: PageRequest) -> Answer:
        headers = [("Content-Type", "text/javascript")]
        return Answer(request.url, status=200, headers=headers, body=b"p.innerText = 'made'")

    async def run() -> None:
        browsers = open_browsers(cfg, Agent.model_validate({}))

        async def take(numbers: range) -> None:
            for n in numbers:
                page = StoredPage(f"http://site{n}.test/", HTML, KINDS[n % len(KINDS)].encode())
                async with asyncio.timeout(EACH_S):
                    ends.append(await browsers.render(page, reply))
                pids = find_processes("--crawlkit-browser") | find_processes("run-driver")
                held.append(memory_bytes(pids))

        try:
            await asyncio.gather(take(range(0, PAGES, 2)), take(range(1, PAGES, 2)))
        finally:
            await browsers.close()

    asyncio.run(run())
    assert len(ends) == PAGES
    assert left_processes("--crawlkit-browser") == left_processes("run-driver") == set()
    early, late = held[PAGES // 10 : PAGES // 2], held[PAGES // 2 :]
    print(
        f"MiB after a page: median {median(held) / 2**20:.0f}, most {max(held) / 2**20:.0f};"
        f" second half against first: {median(late) / median(early):.2f}"
    )
    assert median(late) < 1.2 * median(early)
    assert max(late) < 1.3 * max(early)
    assert sum(e.reason is None for e in ends) >= PAGES // 2
