"""A browser, or the driver of all, killed in the middle of a page: only what it rendered suffers,
and no process is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from crawlkit.adapters.browser.rendering import PageRequest, Rendered, StoredPage, open_browsers
from crawlkit.config import Agent, Render
from crawlkit.model import Answer
from crawlkit.outcomes import Reason

from tests.adapters.browser.chromium import chromium, own_processes

pytestmark = pytest.mark.waits
HTML = [("Content-Type", "text/html")]
PAGE = StoredPage("http://site.test/", HTML, b"<p id=p>x</p><script src=/s.js></script>")


def render_while_killed(mark: str, pages: int) -> list[Rendered]:
    """Pages one after the other; in the middle of the second one all processes with a mark are
    killed.
    """
    cfg = Render(chromium=chromium(), browsers=1, timeout_s=3)
    ends: list[Rendered] = []
    killed: set[int] = set()

    async def reply(request: PageRequest) -> Answer:
        if len(ends) == 1 and not killed:
            killed.update(own_processes(mark))
            assert killed
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.2)
        headers = [("Content-Type", "text/javascript")]
        return Answer(request.url, status=200, headers=headers, body=b"p.innerText = 'made'")

    async def run() -> None:
        browsers = open_browsers(cfg, Agent.model_validate({}))
        try:
            for _ in range(pages):
                ends.append(await browsers.render(PAGE, reply))
        finally:
            await browsers.close()

    start = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - start < 40
    assert own_processes("--crawlkit-browser") == own_processes("run-driver") == set()
    return ends


@pytest.mark.parametrize("mark", ["--crawlkit-browser", "--type=renderer", "run-driver"])
def test_the_page_suffers_alone(mark: str) -> None:
    first, killed, *later = render_while_killed(mark, 4)
    if mark == "run-driver":  # begun anew
        later.append(killed)
    else:
        assert killed.reason in (Reason.RENDER_CRASH, Reason.RENDER_TIMEOUT)
    for end in (first, *later):
        assert (end.reason, b"made</p>" in end.html) == (None, True), end.detail
