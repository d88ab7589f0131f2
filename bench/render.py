"""A page in our browsers beside the same page in Playwright used plainly, turn by turn in one run;
and a round with rendering off beside one with it on, over a web that needs no browser:
`python -m bench render`, five minutes. Not part of `make bench`.

Both get their pages from one server on loopback: ours by our fetch engine, without pace, since a
pace is no cost of a render; plain Playwright by the browser itself.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawlkit.adapters.browser.rendering import (
    PageRequest,
    StoredPage,
    find_chromium,
    open_browsers,
)
from crawlkit.adapters.net.engine import Engine, request_headers
from crawlkit.config import Agent, Config, Render
from crawlkit.model import Answer, FetchRequest
from crawlkit.runtime.cpu_time import cpu_s, process_tree
from playwright.async_api import async_playwright

from bench.measure import ROOT, write
from bench.process import watch

sys.path.insert(0, str(ROOT))
from tests.rounds.framework_web import FrameworkWeb, make_web  # noqa: E402
from tests.slot.slotweb import SlotWeb  # noqa: E402

REPEATS = 4
PAIRS = 5
KINDS = ("own", "history", "scroll", "lazy")


@dataclass
class Way:
    """A way to render. cpu_s, wall_s: of each page. found: pages with all the texts."""

    render: Callable[[str], Awaitable[str]]
    cpu_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    found: int = 0

    async def measure(self, url: str, texts: list[str]) -> None:
        """Render one page."""
        before, wall = process_tree(), time.perf_counter()
        html = await self.render(url)
        self.wall_s.append(time.perf_counter() - wall)
        self.cpu_s.append(cpu_s(before, process_tree()))
        self.found += all(text in html for text in texts)

    def row(self) -> dict[str, float]:
        """Medians and 95%."""
        out: dict[str, float] = {"pages": len(self.wall_s), "complete": self.found}
        for name, values in (("cpu_s", self.cpu_s), ("wall_s", self.wall_s)):
            out[name] = round(statistics.median(values), 3)
            out[f"{name}_p95"] = round(statistics.quantiles(values, n=20)[-1], 3)
        return out


async def compare(web: FrameworkWeb, served: SlotWeb, chromium: Path) -> dict[str, dict[str, Any]]:
    """Both ways on the pages of the web, in turns."""
    engine = Engine(served.config().fetch)
    own = open_browsers(Render(chromium=str(chromium), browsers=1), Agent())

    async def fetch(url: str) -> Answer:
        return await engine.fetch(FetchRequest(url, request_headers(Agent(), url, None, None)))

    async def answer(request: PageRequest) -> Answer | None:
        return await fetch(request.url)

    async def ours(url: str) -> str:
        document = await fetch(url)
        page = StoredPage(url, document.headers, document.body)
        return (await own.render(page, answer)).html.decode()

    rules = ", ".join(f"MAP {h} {a}:{served.server.port}" for h, a in served.address.items())
    arguments = [f"--host-resolver-rules={rules}", "--no-sandbox", "--disable-dev-shm-usage"]
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=arguments)

        async def plain(url: str) -> str:
            context = await browser.new_context()
            try:
                page = await context.new_page()
                await page.goto(url, wait_until="networkidle")
                return await page.content()
            finally:
                await context.close()

        ways = {"ours": Way(ours), "plain Playwright": Way(plain)}
        hosts = [h for h in web.needs if h.split("-")[1].split(".")[0] in KINDS]
        for turn in range(REPEATS + 1):
            for host in sorted(hosts):
                # what its first page shows
                texts = [t for t in web.texts[host] if "indexword" in t]
                for name in sorted(ways, reverse=bool(turn % 2)):
                    await ways[name].measure(f"http://{host}/", texts)
            if turn == 0:  # browsers started, caches filled
                ways = {name: Way(way.render) for name, way in ways.items()}
        await browser.close()
    await own.close()
    await engine.close()
    return {name: way.row() for name, way in ways.items()}


def rounds() -> dict[str, dict[str, Any]]:
    """CPU and wall of three rounds of the sample site, with rendering off and on, in turns."""
    taken: dict[str, list[tuple[float, float]]] = {"false": [], "true": []}
    for turn in range(PAIRS):
        for enabled in sorted(taken, reverse=bool(turn % 2)):
            with tempfile.TemporaryDirectory() as folder:
                options = ["--rounds", "3", "--data", f"{folder}/crawl", "--engine", "local"]
                program = "from crawlkit.cli.main import main; main()"
                argv = [sys.executable, "-c", program, "crawl", "--sample", *options]
                seen = watch([*argv, "--set", f"render.enabled={enabled}", "--json"])
                assert seen.code == 0, seen.tail
                taken[enabled].append((seen.cpu_s, seen.wall_s))
    out = {}
    for enabled, values in taken.items():
        more = [a[0] - b[0] for a, b in zip(values, taken["false"], strict=True)]
        out[f"render.enabled={enabled}"] = {
            "cpu_s": round(statistics.median(v[0] for v in values), 2),
            "wall_s": round(statistics.median(v[1] for v in values), 2),
            "more_cpu_s": round(statistics.median(more), 2),
        }
    return out


def main() -> None:
    """Both comparisons into bench/results/render."""
    chromium = find_chromium(Config().render)
    if chromium is None:
        sys.exit("no Chromium: `make setup-render` gets one")
    web = make_web()
    with SlotWeb(web.sites) as served:
        pages = asyncio.run(compare(web, served, chromium))
    result = {"pages": pages, "rounds": rounds()}
    write("render", result, table(result), ("playwright", "duckdb"))


def table(result: dict[str, Any]) -> str:
    """Both comparisons for people."""
    names = ("pages", "complete", "cpu_s", "cpu_s_p95", "wall_s", "wall_s_p95")
    lines = [
        "# Rendering",
        "",
        f"React, Vue and Svelte, {len(KINDS)} pages each, {REPEATS} times, turn by turn. CPU is"
        " that of Python, driver and browser together. complete: pages whose texts were all found."
        " Ours scrolls each page to its end, and waits for half a second of quiet before and after;"
        " plain Playwright waits for `networkidle`, half a second too, once.",
        "",
        f"| way | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for way, row in result["pages"].items():
        lines.append(f"| {way} | {' | '.join(str(row[name]) for name in names)} |")
    lines += [
        "",
        f"Three rounds of the sample site, which needs no browser, {PAIRS} times in turns: medians,"
        " and the median of the differences within a turn.",
        "",
        "| setting | cpu_s | wall_s | more_cpu_s |",
        "|---|---|---|---|",
    ]
    for setting, row in result["rounds"].items():
        lines.append(f"| {setting} | {row['cpu_s']} | {row['wall_s']} | {row['more_cpu_s']} |")
    return "\n".join(lines) + "\n"
