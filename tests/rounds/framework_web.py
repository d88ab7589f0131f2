"""A web of applications made with React, Vue and Svelte (tests/data/frameworks), with the right
answer: the texts and links that a reader sees, and which pages need a browser.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawlkit.local.web_server import Reply

from tests.slot.slotweb import page

FOLDER = Path(__file__).parents[1] / "data" / "frameworks"
FRAMEWORKS = ("react", "vue", "svelte")
FRESH = ("Cache-Control", "max-age=86400")
JSON = [("Content-Type", "application/json"), ("Access-Control-Allow-Origin", "*")]
JS = [("Content-Type", "text/javascript"), FRESH]


@dataclass
class FrameworkWeb:
    """sites: as `SlotWeb` takes them. texts: host -> what a reader reads there. links: URLs that
    are found. needs: hosts whose first page needs a browser. Host of a site: FRAMEWORK-KIND.test.
    """

    sites: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    needs: set[str] = field(default_factory=set)

    @property
    def seeds(self) -> list[str]:
        """The first page of each site that is no other's helper."""
        return [f"http://{host}/" for host in self.texts]


def sentence(host: str, name: str) -> str:
    """A text of its own, of more than 200 characters."""
    words = " ".join(f"{host.split('.')[0]}{name}word{n}" for n in range(12))
    return f"Read here about {words} and no more"


def make_web(frameworks: tuple[str, ...] = FRAMEWORKS) -> FrameworkWeb:
    """Nine hosts for each framework, an API host for each, and one that serves scripts to many."""
    web = FrameworkWeb()
    web.sites["scripts.test"] = {f"/{f}.js": _script(f) for f in frameworks}
    for framework in frameworks:
        for kind, (pages, attributes) in KINDS.items():
            _add_application(web, framework, kind, pages, attributes)
        _add_state(web, framework)
        _add_complete(web, framework, "ssr", f"<div id=root>{{}}</div>{_tag('/app.js')}")
        _add_complete(web, framework, "plain", "<div>{}</div>")
    return web


# kind -> pages by the name of their data: what they link to; attributes of the root
KINDS: dict[str, tuple[dict[str, list[str]], str]] = {
    "own": ({"index": ["/leaf"]}, ""),
    "api": ({"index": ["/leaf"]}, "data-data=http://api-{f}.test/data"),
    "history": ({"index": ["/a", "/b"], "a": ["/leaf"], "b": ["/"]}, "data-router=history"),
    "hash": ({"index": ["#/two", "/leaf"]}, "data-router=hash"),
    "scroll": ({"index": ["/leaf"], "more1": ["/m1"], "more2": ["/m2"]}, "data-more=2"),
    "lazy": ({"index": ["/leaf"]}, "data-lazy=/lazy.js"),
}


def _script(framework: str) -> Reply:
    return Reply(200, JS, (FOLDER / f"{framework}.js").read_bytes())


def _tag(source: str) -> str:
    return f"<script src={source}></script>"


def _leaf(host: str, path: str) -> Reply:
    return page(f"<h1>{path}</h1><p>{sentence(host, path[1:])}</p><a href=/>home</a>")


def _add_application(
    web: FrameworkWeb, framework: str, kind: str, pages: dict[str, list[str]], attributes: str
) -> None:
    host = f"{framework}-{kind}.test"
    given = attributes.replace("{f}", framework)
    data = "" if "data-data" in given else "data-data=/data"
    source = f"http://scripts.test/{framework}.js" if kind == "api" else "/app.js"
    shell = page(f"<title>{kind}</title><div id=root {data} {given}></div>{_tag(source)}")
    site = web.sites.setdefault(host, {"/": shell, "/app.js": _script(framework)})
    served = web.sites.setdefault(f"api-{framework}.test", {}) if kind == "api" else site
    web.needs.add(host)
    web.texts[host] = []
    for name, links in pages.items():
        text = sentence(host, name)
        web.texts[host].append(text)
        body = json.dumps({"title": name, "text": text, "links": links})
        served[f"/data/{name}.json"] = Reply(200, JSON, body.encode())
        for path in (to for to in links if to[0] == "/"):
            web.links.add(f"http://{host}{path}")
            is_view = path[1:] in pages
            site.setdefault(path, shell if is_view else _leaf(host, path))
    if kind == "lazy":
        text = sentence(host, "lazy")
        web.texts[host].append(text)
        site["/lazy.js"] = Reply(200, JS, f"export const text = {json.dumps(text)}".encode())


def _add_state(web: FrameworkWeb, framework: str) -> None:
    """Its text and links are in JSON that it carries: no browser is needed."""
    host = f"{framework}-state.test"
    text = sentence(host, "state")
    state = json.dumps({"title": "state", "text": text, "next": {"href": "/leaf"}})
    shell = f"<div id=root></div><script>window.__STATE__ = {state}</script>{_tag('/app.js')}"
    web.sites[host] = {
        "/": page(shell),
        "/leaf": _leaf(host, "/leaf"),
        "/app.js": _script(framework),
    }
    web.texts[host] = [text]
    web.links.add(f"http://{host}/leaf")


def _add_complete(web: FrameworkWeb, framework: str, kind: str, form: str) -> None:
    """Complete as it is sent."""
    host = f"{framework}-{kind}.test"
    text = sentence(host, kind)
    web.sites[host] = {
        "/": page(form.format(f"<p>{text}</p><a href=/leaf>leaf</a>")),
        "/leaf": _leaf(host, "/leaf"),
        "/app.js": _script(framework),
    }
    web.texts[host] = [text]
    web.links.add(f"http://{host}/leaf")
