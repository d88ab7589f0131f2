"""Building the web from a seed: hosts and their roles, the pages of each host, the links between
them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.fakeweb import features
from tests.fakeweb.plan import FakeWeb, Host, Link, Page, Robots
from tests.fakeweb.robots import ORDINARY, PROFILES
from tests.fakeweb.words import words

# The first hosts have a role each, so that the smallest web has every feature: role, robots
# profile, page features
ROLES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("hub", "none", ("canonical", "base", "schemes", "types", "outside", "deep")),
    ("slow", "star", ("kinds", "transfer")),
    ("token", "token", ("malformed", "follow")),
    ("longest", "longest", ("charsets", "chains")),
    ("delay", "delay", ("stall", "duplicates")),
    ("robots500", "none", ()),
    ("robots429", "none", ()),
    ("robots-moved", "star", ("statuses",)),
    ("bare", "large", ("near",)),
    ("www", "large", ("long_chain",)),
    ("denyall", "denyall", ()),
    ("refused", "none", ()),
    ("source", "bom", ()),
    ("mirror", "bom", ()),
    ("lively", "star", ("changing", "faults", "traps", "errors")),
)
EXTRA = (
    "kinds",
    "transfer",
    "malformed",
    "duplicates",
    "near",
    "chains",
    "canonical",
    "changing",
    "base",
    "follow",
    "charsets",
    "schemes",
)
CORE = len(ROLES)


@dataclass
class Builder:
    """The web while it grows."""

    seed: int
    rng: random.Random
    hosts: dict[str, Host] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    plain: dict[str, list[Page]] = field(default_factory=dict)  # host -> its tree of ordinary pages
    near: list[tuple[str, str, float]] = field(default_factory=list)
    far: list[tuple[str, str, float]] = field(default_factory=list)
    mirrored: str = ""
    serial: int = 0

    def add(self, page: Page) -> Page:
        if page.url in self.pages:
            raise AssertionError(f"planned twice: {page.url}")
        self.pages[page.url] = page
        return page

    def title(self) -> str:
        self.serial += 1
        return " ".join(words(self.rng, 3)).capitalize()

    def text(self, low: int = 60, high: int = 120) -> list[str]:
        return words(self.rng, self.rng.randint(low, high))

    def path(self, stem: str = "") -> str:
        """A new path, in one of several shapes, so that no shape rules a host."""
        self.serial += 1
        a, b, c = words(self.rng, 3)
        n = self.serial
        stem = f"/{stem}" if stem else ""
        return stem + self.rng.choice(
            (
                f"/{a}-{b}/",
                f"/{a}/{b}{n}.html",
                f"/{a}/{b}/{c}-{n}",
                f"/{a}{n}",
                f"/{a}.html?part={n}&topic={b}",
                f"/{a}/{n}/{b}",
            )
        )

    def page(
        self, host: str, path: str | None = None, feature: str = "plain", **kw: object
    ) -> Page:
        """A new page with a link to the home page of its host; nothing leads to it yet."""
        page = Page(host, path or self.path(), self.title(), self.text(), feature=feature, **kw)  # type: ignore[arg-type]
        page.links.append(Link("/", f"http://{host}/", text="home page"))
        return self.add(page)

    def enter(self, host: str) -> Page:
        """An ordinary page to put a link on: near the top, so that features are found early."""
        return self.rng.choice(self.plain[host][:6])

    def lead(self, page: Page, host: str | None = None) -> Page:
        """Make a page known: a plain link from an ordinary page of its host (or of `host`)."""
        at = self.enter(host or page.host)
        at.links.append(Link(self.href(at, page), page.url, text=page.title))
        return page

    def elsewhere(self, host: str, most: int | None = None) -> str:
        """Another host whose pages can all be had (the mirrored one left out: its copy must stay
        whole).
        """
        names = [
            n
            for n in list(self.plain)[:most]
            if self.pages[f"http://{n}/"].allowed
            and self.hosts[n].listening
            and self.hosts[n].robots.readable
        ]
        return self.rng.choice([n for n in names if n not in (host, self.mirrored)])

    def href(self, at: Page, to: Page) -> str:
        """One of the ways to write a link to `to` on the page `at`; all have one canonical form."""
        if at.host != to.host:
            return self.rng.choice(
                (to.url, f"//{to.host}{to.path}", f"http://{to.host}:80{to.path}")
            )
        ways = [to.path, to.path, to.url, to.path + "#part", f"http://{to.host.upper()}{to.path}"]
        folder = at.path.partition("?")[0].rpartition("/")[0] + "/"
        if (
            to.path.startswith(folder)
            and len(to.path) > len(folder) + 1
            and not to.path[len(folder)] == "?"
        ):
            ways += [to.path[len(folder) :]] * 3
        return self.rng.choice(ways)


def build(seed: int, scale: float = 1.0) -> FakeWeb:
    """The web of a seed.

    scale 1: 64 hosts under 40 domains, over 3,000 URLs; 0.1: 15 hosts, about 300 URLs. Pure.
    """
    count = max(CORE, round(64 * scale))
    b = Builder(seed, random.Random(f"fakeweb {seed} {scale}"))
    mean = 38 if count > CORE else 14
    _hosts(b, count)
    names = list(b.hosts)
    b.mirrored = names[12]
    for i, name in enumerate(names):
        role = ROLES[i][0] if i < CORE else ""
        size = {
            "mirror": 0,
            "denyall": 4,
            "refused": 4,
            "robots500": 6,
            "robots429": 6,
            "www": mean // 2,
            "bare": mean // 2,
        }.get(role, b.rng.randint(mean // 2, mean + mean // 3))
        if i == CORE:
            size = mean * 4  # one host far larger than the others
        if role != "mirror":
            _grow(b, b.hosts[name], size)
    for i, name in enumerate(names):
        if i < CORE:
            chosen = ROLES[i][2]
        else:
            chosen = tuple(b.rng.sample(EXTRA, 3))
        for feature in chosen:
            getattr(features, feature)(b, name)
    _mirror(b, names[12], names[13])
    seeds = _connect(b, names)
    return FakeWeb(seed, b.hosts, b.pages, seeds, b.near, b.far)


def _hosts(b: Builder, count: int) -> None:
    domains: list[str] = []
    most = max(CORE - 2, count * 40 // 64)
    subs = ("blog", "shop", "news", "m")
    for i in range(count):
        role, profile, _ = ROLES[i] if i < CORE else ("", ORDINARY[i % len(ORDINARY)], ())
        if role == "www":
            domain, name = domains[-1], "www." + domains[-1]
        elif role == "mirror":
            domain, name = domains[-1], "mirror." + domains[-1]
        elif i < CORE or len(domains) < most:
            domain = f"{words(b.rng, 1)[0]}{i}." + ("example", "test")[i % 2]
            domains.append(domain)
            name = domain if i % 3 else "www." + domain
            if role == "bare":
                name = domain
        else:
            domain = domains[(i * 7) % len(domains)] if i % 2 else domains[-1 - i % 5]
            name = f"{subs[i % 4]}{i}.{domain}"
        address = f"127.{10 + b.seed % 100}.{i // 200}.{i % 200 + 1}"
        if role in ("token", "mirror") or (i >= CORE and i % 9 == 0):
            address = list(b.hosts.values())[-1].address  # shares it with the host before
        host = Host(
            name,
            domain,
            address,
            robots=Robots(
                profile,
                404 if profile == "none" else 200,
                PROFILES[profile].body,
                delay_s=PROFILES[profile].delay_s,
            ),
        )
        b.hosts[name] = host
        _special(host, role)
    # nothing else may live on an address where no one listens
    for host in b.hosts.values():
        if not host.listening:
            host.address = f"127.{10 + b.seed % 100}.250.1"


def _special(host: Host, role: str) -> None:
    robots = host.robots
    if role == "slow":
        host.delay_s = 0.08
    elif role == "robots500":
        host.robots = Robots("500", 500)
    elif role == "robots429":
        host.robots = Robots("429", 429, retry_after_s=2)
    elif role == "robots-moved":
        host.extra["/meta/robots-file.txt"] = robots.body
        robots.status, robots.location = 301, "/meta/robots-file.txt"
    elif role == "bare":
        robots.status, robots.location = 302, f"http://www.{host.domain}/robots.txt"
    elif role == "refused":
        host.listening = False
    elif role == "lively":
        robots.later = (6, robots.body + b"\nUser-agent: *\nDisallow: /withdrawn/\n")
        host.traps = True


def _grow(b: Builder, host: Host, size: int) -> None:
    """The ordinary pages of a host: a tree from the home page, with links back and across."""
    home = b.add(Page(host.name, "/", b.title(), b.text(), allowed=host.robots.name != "denyall"))
    tree = b.plain[host.name] = [home]
    for n in range(size):
        page = Page(host.name, b.path(), b.title(), b.text(), allowed=home.allowed)
        parent = b.rng.choice(tree[n // 3 :])
        parent.links.append(Link(b.href(parent, page), page.url, text=page.title))
        page.links.append(Link("/", home.url, text="home page"))
        for other in b.rng.sample(tree, min(len(tree), 3)):
            page.links.append(Link(b.href(page, other), other.url, text=other.title))
        tree.append(b.add(page))
    profile = PROFILES.get(host.robots.name)
    for pattern, allowed in profile.paths if profile else ():
        path = pattern.format(a=words(b.rng, 1)[0], b=words(b.rng, 1)[0])
        b.lead(b.page(host.name, path, feature="robots", allowed=allowed))


def _mirror(b: Builder, source: str, copy: str) -> None:
    """The pages of `source` once more under another name, byte for byte: all links of both are
    paths.
    """
    b.hosts[copy].mirror_of = source
    for page in [p for p in b.pages.values() if p.host == source]:
        for link in page.links:
            link.href = link.to.removeprefix(f"http://{source}")
        links = [Link(a.href, f"http://{copy}{a.href}", a.how, a.text, a.why) for a in page.links]
        b.add(Page(copy, page.path, page.title, page.words, links, "mirror", allowed=page.allowed))


def _connect(b: Builder, names: list[str]) -> list[str]:
    """Seeds are the home pages of every other host (and the hub's); the rest is found by links
    between hosts.
    """
    seeds = [f"http://{n}/" for i, n in enumerate(names) if i % 2 == 0]
    by_path_only = {names[12], names[13]}
    open_hosts = [
        n
        for i, n in enumerate(names)
        if n in b.plain
        and n not in by_path_only
        and b.pages[f"http://{n}/"].allowed
        and b.hosts[n].robots.readable
        and b.hosts[n].listening
    ]
    for i, name in enumerate(names):
        if i % 2:
            at = (
                b.pages[f"http://{names[0]}/"]
                if i < CORE
                else b.enter(open_hosts[i % len(open_hosts)])
            )
            if at.host == name:
                at = b.pages[f"http://{names[0]}/"]
            home = b.pages[f"http://{name}/"]
            at.links.append(Link(home.url, home.url, text=home.title))
    for name in open_hosts:
        for _ in range(4):
            at, to = b.rng.choice(b.plain[name]), b.rng.choice(b.plain[b.rng.choice(open_hosts)])
            at.links.append(Link(b.href(at, to), to.url, text=to.title))
    return seeds
