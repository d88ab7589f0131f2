"""What to make of pages: sections warc, dedup, parse, render, schedule."""

from __future__ import annotations

from typing import Literal

from crawlkit.config.section import Named, Section, setting

Category = Literal["minutes", "hours", "days", "weeks", "manual"]


class Warc(Section):
    roll_bytes: int = setting(128 * 1024 * 1024, "A WARC file is closed at this size ...", ge=1024)
    roll_s: float = setting(
        60.0, "... or this age, so that little is fetched again after a crash.", gt=0
    )
    set_cookie: bool = setting(
        False,
        "Store the Set-Cookie lines of responses; those of a session (fetch.cookie_hosts,"
        " fetch.session_headers) never are.",
    )
    pack_bytes: int = setting(
        1024 * 1024 * 1024, "maintain packs small files to about this size.", ge=1024
    )


class Dedup(Section):
    hamming: int = setting(
        3, "SimHash distance of near-duplicates (with verified Jaccard >= 0.5).", ge=0, le=10
    )
    jaccard: float = setting(
        0.8, "Verified Jaccard of near-duplicates found by MinHash.", gt=0, le=1
    )
    block_anchors: int = setting(
        10,
        "First texts of a candidate block with which each later one is compared; in longer blocks"
        " also with its nearest by SimHash. Longer blocks are counted (blocks_cut).",
        ge=1,
        le=1000,
    )


class Parse(Section):
    low_quality: float = setting(
        0.3, "Hosts of a lower quality (host_ranks) are low-quality hosts.", ge=0, le=1
    )
    outlinks_low_quality: int = setting(200, "Outlinks kept of a page of a low-quality host.", ge=0)
    outlinks: int = setting(5000, "Outlinks kept of any page.", ge=0)
    same_shape: int = setting(
        500, "A page with more outlinks of one shape is flagged many_same_shape.", ge=1
    )
    enforce_opt_outs: bool = setting(
        False,
        "Keep no text of pages that reserve it against AI use or text and data mining (noai,"
        " notrain, Content-Usage, Content-Signal, tdm-reservation); else it is only recorded.",
    )
    page_timeout_s: float = setting(20.0, "A page that takes longer to parse is a reject.", gt=0)


class Render(Section):
    """Pages that need a browser (docs/rendering.md)."""

    enabled: bool = setting(
        False,
        "Render pages that need a browser (pages.needs_js) in the round after their fetch; needs"
        " the extra crawlkit[render] and a Chromium (`make setup-render`).",
    )
    chromium: str = setting(
        "",
        "Path of a Chromium; empty: $CRAWLKIT_CHROMIUM, the one of `make setup-render`, else one"
        " on PATH.",
    )
    share: float = setting(0.05, "Renders of a round, of round.max_urls.", ge=0, le=0.10)
    browsers: int = setting(2, "Browsers of a slot, each with one page at a time.", ge=1, le=32)
    timeout_s: float = setting(
        10.0, "Of a page, the time in which it waits for no request of its own.", gt=0, le=120
    )
    wait_s: float = setting(
        120.0, "Of a page, all time: its requests wait for their host's pace.", gt=0
    )
    requests: int = setting(60, "Requests of a page, at most.", ge=0)
    body_bytes: int = setting(20 << 20, "Bytes of the bodies that a page asks for.", ge=1024)
    memory_bytes: int = setting(
        1 << 30, "Memory of a browser; one that takes more is ended.", ge=1 << 27
    )
    recycle_pages: int = setting(100, "A browser is replaced after so many pages.", ge=1)
    scrolls: int = setting(5, "Times that a page is scrolled to its end, at most.", ge=0)
    scroll_links: int = setting(200, "New links after which it is not scrolled on.", ge=0)
    cache_bytes: int = setting(
        64 << 20, "Scripts that a slot keeps for the next page that asks for them.", ge=0
    )


class Schedule(Section):
    changed_factor: float = setting(0.5, "Interval x this after a change.", gt=0, le=1)
    unchanged_factor: float = setting(1.5, "Interval x this after no change.", ge=1)
    initial_s: tuple[float, float, float, float] = setting(
        (86_400.0, 7 * 86_400.0, 30 * 86_400.0, 90 * 86_400.0),
        "Starting interval by priority class 0..3, clamped to the host class.",
    )
    news_s: tuple[float, float] = setting((600.0, 6 * 3600.0), "Floor and ceiling for news hosts.")
    generic_s: tuple[float, float] = setting(
        (86_400.0, 30 * 86_400.0), "Floor and ceiling for generic hosts."
    )
    dormant_s: tuple[float, float] = setting(
        (30 * 86_400.0, 90 * 86_400.0), "Floor and ceiling for dormant hosts."
    )
    sitemap_s: tuple[float, float, float] = setting(
        (21_600.0, 86_400.0, 7 * 86_400.0), "Floor, start and ceiling of a sitemap's interval."
    )
    feed_s: tuple[float, float, float] = setting(
        (900.0, 3600.0, 86_400.0), "Floor, start and ceiling of a feed's interval."
    )
    minutes_s: tuple[float, float] = setting(
        (300.0, 3600.0), "Start (and floor) and ceiling of the category minutes."
    )
    hours_s: tuple[float, float] = setting((3600.0, 12 * 3600.0), "Of the category hours.")
    days_s: tuple[float, float] = setting((86_400.0, 7 * 86_400.0), "Of the category days.")
    weeks_s: tuple[float, float] = setting((7 * 86_400.0, 28 * 86_400.0), "Of the category weeks.")
    recrawl: dict[Named, Category] = setting(
        {},
        "How often pages are fetched again, before all that is learned: host, *.suffix, * or start"
        " of a URL -> minutes, hours, days, weeks or manual (only when an operator asks for it);"
        " the longest start of a URL counts, then the host. `crawlkit host set HOST --recrawl`"
        " orders the same of a host.",
    )
    learn_classes: bool = setting(
        True, "Tell news and dormant hosts by what visits find; the lists below come first."
    )
    news_pages_per_day: float = setting(
        3.0, "A host with so many new pages a day is of class news.", gt=0
    )
    dormant_days: float = setting(
        60.0, "A host without a change for so long, in ten visits at least, is dormant.", gt=0
    )
    news_hosts: tuple[str, ...] = setting((), "Hosts of class news.")
    dormant_hosts: tuple[str, ...] = setting((), "Hosts of class dormant.")


class Freshness(Section):
    """Promises that are tracked: how old a held page may be (`crawlkit freshness`)."""

    top_pages: int = setting(
        10_000_000, "Pages with the most in-links, at most so many; and those of class 0.", ge=0
    )
    top_share: float = setting(0.01, "At most this share of the held pages.", ge=0, le=1)
    top_s: float = setting(86_400.0, "They are at most so old.", gt=0)
    important_pages: int = setting(
        100_000_000, "Pages with the most in-links that are important; and those of class 1.", ge=0
    )
    important_share: float = setting(0.1, "At most this share of the held pages.", ge=0, le=1)
    important_s: float = setting(7 * 86_400.0, "They are at most so old.", gt=0)
    news_s: float = setting(86_400.0, "Pages of news hosts are at most so old.", gt=0)
    tail_s: float = setting(30 * 86_400.0, "All others are at most so old.", gt=0)
    late_listed: int = setting(20, "Pages that are late, listed in the report.", ge=0, le=10_000)
