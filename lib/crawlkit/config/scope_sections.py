"""What to crawl: sections crawl, agent, urls, scope, frontier, round."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from crawlkit.config.section import Named, Section, of_host, setting
from crawlkit.version import __version__

PLACEHOLDER_INFO_URL = "https://example.invalid/crawler"


class Crawl(Section):
    id: str = setting(
        "crawl",
        "Name of the crawl; part of every WARC file name.",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
    )


class Agent(Section):
    name: str = setting(
        "crawlkit",
        "Product token (RFC 9309 2.2.1): letters, _ and -; matched against robots.txt groups.",
        pattern=r"^[A-Za-z_-]{1,64}$",
    )
    version: str = setting(
        __version__, "Version in the User-Agent.", pattern=r"^[0-9A-Za-z.+-]{1,32}$"
    )
    info_url: str = setting(
        PLACEHOLDER_INFO_URL,
        "Page that explains the crawler and how to opt out. The placeholder is refused outside"
        " loopback.",
        pattern=r"^https?://[!-~]{1,500}$",
    )
    from_: str | None = Field(
        None,
        alias="from",
        description="Contact mail address, sent as From when set.",
        pattern=r"^[^\s@]{1,64}@[^\s@]{1,255}$",
    )

    mobile_hosts: tuple[str, ...] = setting(
        (),
        "Host names or *.suffix that are asked as a phone, to capture their mobile variants; the"
        " User-Agent keeps our token.",
    )

    @property
    def user_agent(self) -> str:
        """`Mozilla/5.0 (compatible; NAME/VERSION; +URL)` (RFC 9110 10.1.5)."""
        return f"Mozilla/5.0 {self._token}"

    @property
    def mobile_user_agent(self) -> str:
        """A phone's, with our token at the end."""
        return (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Mobile"
            f" Safari/537.36 {self._token}"
        )

    def user_agent_of(self, host: str) -> str:
        """The User-Agent for a host."""
        mobile: dict[str, bool] = dict.fromkeys(self.mobile_hosts, True)
        is_mobile = bool(mobile) and of_host(mobile, host) is not None
        return self.mobile_user_agent if is_mobile else self.user_agent

    @property
    def _token(self) -> str:
        return f"(compatible; {self.name}/{self.version}; +{self.info_url})"


class Urls(Section):
    remove_tracking: bool = setting(
        True, "Remove tracking parameters (utm_*, gclid, ...) from queries."
    )
    remove_session: bool = setting(
        True, "Remove session parameters (PHPSESSID, ;jsessionid=, ...)."
    )
    extra_tracking: tuple[str, ...] = setting(
        (), "Further tracking parameter names; a final * matches any ending."
    )
    extra_session: tuple[str, ...] = setting(
        (), "Further session parameter names; a final * matches any ending."
    )
    host_params: dict[str, tuple[str, ...]] = setting(
        {}, "Host -> parameters that do not choose a page there and are removed."
    )
    collapse_repeats: bool = setting(False, "Keep equal name=value pairs of a query once.")
    keep_route_fragments: tuple[str, ...] = setting(
        (), "Hosts whose fragments #/... and #!... are part of the URL."
    )
    fold_www: bool = setting(
        False, "Drop a leading www. of the host; merges distinct sites where the two differ."
    )
    fold_index: bool = setting(
        False, "Drop index.html, default.aspx and the like at the end of a path."
    )
    fold_slash: bool = setting(False, "Drop slashes at the end of a path.")


class ScopeConfig(Section):
    hosts: tuple[str, ...] = setting(
        (),
        "Crawl these host names. In scope is what hosts, domains or prefixes name. With all of them"
        " empty the first seeds decide: `crawl` and `inject` write what --scope says (the seeds'"
        " registered domains) into crawl.yaml.",
    )
    domains: tuple[str, ...] = setting((), "Crawl these domains and what is below them.")
    prefixes: tuple[str, ...] = setting((), "Crawl URLs that start with these texts.")
    any: bool = setting(
        False, "With hosts, domains and prefixes empty: the whole web is in scope (--scope any)."
    )
    requisites: Literal["none", "scope", "any"] = setting(
        "none",
        "What pages need to be replayed (images, style sheets, scripts, fonts, media, icons):"
        " none: it is not fetched; scope: what is in scope; any (--requisites): of any host, with"
        " the other rules of the scope. docs/rules/requisites.md.",
    )
    exclude_patterns: tuple[str, ...] = setting(
        (), "Regular expressions (RE2 syntax: linear time); a URL in which one is found is refused."
    )
    max_depth: int = setting(15, "Links from a seed at most.", ge=0, le=1000)
    max_url_bytes: int = setting(2048, "Longest canonical URL.", ge=64, le=65536)
    max_repeated_segments: int = setting(
        3, "A path in which one segment occurs more often is refused.", ge=1
    )
    min_year: int = setting(1990, "Calendar paths before this year are refused.")
    max_years_ahead: int = setting(2, "Calendar paths further in the future are refused.")
    media_extensions: tuple[str, ...] = setting(
        (
            "3gp",
            "aac",
            "aif",
            "apng",
            "avi",
            "avif",
            "bmp",
            "flac",
            "flv",
            "gif",
            "heic",
            "ico",
            "jfif",
            "jpeg",
            "jpg",
            "m3u8",
            "m4a",
            "m4v",
            "mid",
            "mkv",
            "mov",
            "mp3",
            "mp4",
            "mpeg",
            "mpg",
            "oga",
            "ogg",
            "ogv",
            "opus",
            "png",
            "psd",
            "svg",
            "tif",
            "tiff",
            "wav",
            "webm",
            "webp",
            "wma",
            "wmv",
        ),
        "File name endings of images, sound and video: such links are recorded and not crawled.",
    )
    skip_extensions: tuple[str, ...] = setting(
        (
            "7z",
            "apk",
            "bin",
            "bz2",
            "css",
            "deb",
            "dmg",
            "eot",
            "exe",
            "gz",
            "iso",
            "jar",
            "js",
            "map",
            "mjs",
            "msi",
            "otf",
            "pkg",
            "rar",
            "rpm",
            "tar",
            "tgz",
            "ttf",
            "wasm",
            "woff",
            "woff2",
            "xz",
            "zip",
            "zst",
        ),
        "File name endings of other links that are not crawled: archives, programs, fonts, scripts,"
        " style sheets.",
    )


class Frontier(Section):
    buckets: int = setting(
        8, "Number of host buckets N, a power of two; about a million URLs each.", ge=1, le=65536
    )
    buckets_per_round: int = setting(64, "At most M buckets in a round, the most due first.", ge=1)
    scorer: Literal["points", "product"] = setting(
        "points",
        "What is fetched first: the sum of points, or quality x root of the parent's priority /"
        " depth (docs/round.md).",
    )
    classes: Literal["given", "score"] = setting(
        "given",
        "Priority classes: as seeds and operators give them (else normal), or where nobody did by"
        " the score: 0 from 75, 1 from 50, 2 from 25.",
    )
    home_boost: float = setting(10.0, "Points for the home page of a host.", ge=0, le=100)
    weights: dict[Named, Annotated[float, Field(ge=0, le=100)]] = setting(
        {},
        "Business weight, by which scores are multiplied: host, *.suffix, * or start of a URL ->"
        " weight. `crawlkit host set HOST --weight` orders one of a host.",
    )
    traps: tuple[Named, ...] = setting(
        (), "Hosts, *.suffixes and starts of URLs that are traps: their score falls."
    )
    explore: float = setting(0.2, "Share of a round that explores low-scored URLs.", ge=0, le=1)
    sitemaps: bool = setting(
        True, "Fetch the sitemaps that robots.txt names, and put their pages into the frontier."
    )
    guess_sitemap: bool = setting(
        True, "Try /sitemap.xml once for an origin whose robots.txt names no sitemap."
    )
    feeds: bool = setting(
        True,
        "Fetch the RSS and Atom feeds that pages name, and put their entries into the frontier.",
    )
    hot_hosts: tuple[str, ...] = setting((), "Registered domains that get a task of their own.")
    hot_share: float = setting(
        0.25,
        "A domain with more than this share of a round's rows gets a task of its own.",
        gt=0,
        le=1,
    )

    @field_validator("buckets")
    @classmethod
    def _power_of_two(cls, v: int) -> int:
        if v & (v - 1):
            raise ValueError("must be a power of two (1, 2, 4, 8, ...)")
        return v


class Round(Section):
    minutes: float = setting(
        30.0, "Time budget of the fetch stage; what does not fit is deferred.", gt=0
    )
    max_urls: int = setting(100_000, "Most URLs of one round.", ge=1)
    max_bytes: int | None = setting(
        None,
        "Bytes of bodies of one round, shared out equally to its slots; what is left then is"
        " deferred. null: no limit.",
        ge=1,
    )
    urls_per_host: int = setting(1000, "Most URLs of one host in one round; 0 selects none.", ge=0)
    overlap: bool = setting(
        True,
        "Let `crawlkit crawl` split a round in two where that saves time: pages of the hosts that"
        " are done are read while the others are still fetched (docs/round.md). Only on the engine"
        " local with its state in a folder; Spark never overlaps rounds.",
    )
