"""A real Chromium on pages that behave and pages that do not: each ends within its limits, none
reaches a socket, and no process is left.
"""

import asyncio
import socket
import time

import pytest
from crawlkit.adapters.browser.rendering import PageRequest, Rendered, StoredPage, open_browsers
from crawlkit.config import Agent, Render
from crawlkit.model import Answer
from crawlkit.outcomes import Reason

from tests.adapters.browser.chromium import chromium, left_processes

pytestmark = pytest.mark.waits
HTML = [("Content-Type", "text/html; charset=utf-8"), ("Set-Cookie", "a=b")]
SCRIPT = b"root.innerHTML = '<a href=/x>hello</a>'"


def render(
    pages: dict[str, str], answer: bytes = SCRIPT, **settings: object
) -> tuple[dict[str, Rendered], list[str], float]:
    """Each page's end, the URLs asked for, and seconds; asserts that no process is left."""
    cfg = Render(chromium=chromium(), **settings)  # type: ignore[arg-type]
    asked: list[str] = []

    async def reply(request: PageRequest) -> Answer:
        asked.append(request.url)
        headers = [("Content-Type", "text/javascript"), ("Access-Control-Allow-Origin", "*")]
        return Answer(request.url, status=200, headers=headers, body=answer)

    async def run() -> dict[str, Rendered]:
        browsers = open_browsers(cfg, Agent.model_validate({}))
        try:
            ends = [
                browsers.render(StoredPage("http://site.test/", HTML, page.encode()), reply)
                for page in pages.values()
            ]
            return dict(zip(pages, await asyncio.gather(*ends), strict=True))
        finally:
            await browsers.close()

    start = time.monotonic()
    found = asyncio.run(run())
    assert left_processes("--crawlkit-browser") == set()
    return found, asked, time.monotonic() - start


def test_pages_that_behave() -> None:
    pages = {
        "script": "<div id=root></div><script src=/app.js></script>",
        "shadow": "<div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML ="
        " '<p>in a shadow'</script>",
        "throws": "<p>stays</p><script>throw 1</script>",
        "history": "<p>stays</p><script>history.pushState(0, '', '/other')</script>",
        # more comes each time that its end is seen
        "scroll": "<div id=r></div><div id=s style='height:9px'></div><script>n = 0; new"
        " IntersectionObserver(e => { if (e[0].isIntersecting && n++ < 3) for (i = 0; i < 40; i++)"
        " r.insertAdjacentHTML('beforeend', `<p style='height:60px'><a href=/${n}-${i}>x</a>`)"
        " }).observe(s)</script>",
    }
    found, asked, _ = render(pages)
    assert {name: end.reason for name, end in found.items()} == dict.fromkeys(pages)
    assert b'<a href="/x">hello</a>' in found["script"].html
    assert b'<template shadowrootmode="open"><p>in a shadow' in found["shadow"].html
    assert found["scroll"].html.count(b'<a href="') == 120
    assert asked == ["http://site.test/app.js"]


def test_what_is_refused() -> None:
    """Refused is also what a page may not do at all; it stays as it is."""
    pages = {
        "assets": "<p>stays</p><img src=/i.png><link rel=stylesheet href=/s.css><iframe src=/f>"
        "</iframe><link rel=prefetch href=/p><video src=/v.mp4></video>",
        "leaves": "<p>stays</p><script>location = 'http://other.test/'</script>",
        "keeps leaving": "<p>stays</p><script>setInterval(() => location.reload(), 9)</script>",
        "form": "<p>stays</p><form id=f action=/x method=post></form><script>f.submit()</script>",
        "popups": "<p>stays</p><script>for (i = 0; i < 9; i++) open('/'); alert(1); confirm(1);"
        " print(); onbeforeunload = () => 'x'</script><a id=a target=_blank href=/y></a>"
        "<script>a.click()</script>",
        "download": "<p>stays</p><a id=a download=x href=/x></a><script>a.click()</script>",
        "worker": "<p>stays</p><script>navigator.serviceWorker && navigator.serviceWorker"
        ".register('/sw.js'); navigator.permissions && navigator.geolocation"
        ".getCurrentPosition(() => 0)</script>",
    }
    found, asked, _ = render(pages)
    assert {name: end.reason for name, end in found.items()} == dict.fromkeys(pages)
    assert all(b"<p>stays</p>" in end.html for end in found.values())
    assert asked == []
    assert found["leaves"].blocked == {"navigation": 1}
    assert str(Reason.RENDER_LIMIT) in (found["keeps leaving"].detail or "")


def test_pages_that_do_not_let_go() -> None:
    pages = {
        "loops": "<script>while (true) {}</script>",
        "allocates": "<script>a = []; for (;;) a.push(new Array(1e6).fill(Math.random()))</script>",
        "floods": "<script>setInterval(() => fetch('/x' + Math.random()), 5)</script>",
        "after them": "<p>fine</p>",
    }
    found, _, seconds = render(pages, timeout_s=1, memory_bytes=400 << 20, browsers=1)
    assert found["loops"].reason is Reason.RENDER_TIMEOUT
    assert found["allocates"].reason in (Reason.RENDER_MEMORY, Reason.RENDER_TIMEOUT)
    assert found["floods"].reason in (None, Reason.RENDER_TIMEOUT)
    assert b"<p>fine</p>" in found["after them"].html
    assert seconds < 40


def test_limits_of_requests() -> None:
    page = "<p>x</p><script>setInterval(() => fetch('/x' + Math.random()), 50)</script>"
    found, asked, _ = render({"polls": page}, timeout_s=5, requests=7)
    assert len(asked) == 7 and found["polls"].reason is None
    assert str(Reason.RENDER_LIMIT) in (found["polls"].detail or "")


def test_no_socket() -> None:
    """Scripts try this machine by every way that a browser knows; nothing arrives."""
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        for s in (tcp, udp):
            s.bind(("127.0.0.1", 0))
            s.setblocking(False)
        tcp.listen()
        port, uport = tcp.getsockname()[1], udp.getsockname()[1]
        here = f"127.0.0.1:{port}"
        page = f"""<p>x</p><link rel=preconnect href=http://{here}><link rel=prefetch
            href=http://{here}/p><link rel=dns-prefetch href=http://{here}><img src=http://{here}/i>
            <iframe src=http://{here}/f></iframe><iframe src=file:///etc/passwd></iframe>
            <script>
            try {{ new WebSocket('ws://{here}/') }} catch (e) {{}}
            try {{ new EventSource('http://{here}/e') }} catch (e) {{}}
            try {{ navigator.sendBeacon('http://{here}/b', 'x') }} catch (e) {{}}
            try {{ fetch('file:///etc/passwd'); fetch('ftp://{here}/') }} catch (e) {{}}
            try {{ const c = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{uport}'
                }}]}}); c.createDataChannel('x'); c.createOffer().then(o =>
                c.setLocalDescription(o))
                }} catch (e) {{}}
            new Worker(URL.createObjectURL(new Blob([`new WebSocket('ws://{here}/');
                importScripts('http://{here}/w')`])));
            </script>"""
        found, asked, _ = render({"tries": page}, timeout_s=2)
        assert found["tries"].reason is None and b"root:" not in found["tries"].html
        assert all("/w" in url for url in asked)  # the one way that there is: through the caller
        for s in (tcp, udp):
            with pytest.raises(BlockingIOError):
                s.accept() if s is tcp else s.recv(1)
