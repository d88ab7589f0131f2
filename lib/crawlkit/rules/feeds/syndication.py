"""RSS (0.9 to 2.0, RDF) and Atom (0.3, RFC 4287) feeds: the addresses of their entries and when
they changed.

Read by the same bounded scanner as sitemaps; `rules.sitemaps.parse` tells the forms apart and calls
these.
"""

from __future__ import annotations

from crawlkit.outcomes import Refused
from crawlkit.rules.feeds.collect import Collector
from crawlkit.rules.feeds.timestamps import feed_date
from crawlkit.rules.feeds.xml_scanner import Event, Scanner, attributes_of
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize

_WITH_OWN_LINK = (
    "source",
    "image",
    "textinput",
    "description",
    "encoded",
)  # their links are not the item's
_NOT_THE_ENTRYS = ("source", "content", "summary")  # likewise: another feed, or text as markup
_ALTERNATE = (
    "alternate",
    "http://www.iana.org/assignments/relation/alternate",
)  # a registered name and its IRI are one (RFC 4287 4.2.7.2)
_AS_SENT = UrlPolicy(remove_session=False)


def read_rss(root: Event, scanner: Scanner, out: Collector) -> bool:
    """Items of an RSS feed: `link`, else a `guid` that is a permalink (RSS 2.0), else `rdf:about`.

    True: the feed was whole.

    Also of CDF, whose root is `channel` and whose items carry `href`.
    """
    reader = _RssReader(root, out)
    for event in scanner.events(
        frozenset({"channel", "item", *_WITH_OWN_LINK, *_RSS_TEXTS}),
        frozenset({root.name, "item", *_WITH_OWN_LINK}),
        _RSS_TEXTS,
    ):
        if reader.take(event):
            return True
    reader.end_cut_item()
    return False


_RSS_DATES = ("pubdate", "date", "updated", "published")
_RSS_TEXTS = frozenset({"link", "guid", *_RSS_DATES})


class _RssReader:
    """The state of reading a feed: the item that is open, and what it has said so far."""

    def __init__(self, root: Event, out: Collector) -> None:
        self._out = out
        self._top = root.name
        self._depth = 1
        self._base = _base(out.url, root)
        self._inside: tuple[str, int] | None = None  # an element whose links are not the item's
        self._begin(None)

    def _begin(self, base: str | None) -> None:
        """Begin an item, whose addresses are relative to `base`; None: between items."""
        self._item_base = base
        self._link: str | None = None
        self._guid: str | None = None
        self._about: str | None = None
        self._dates: dict[str, str] = {}
        self._inside = None

    def _end(self) -> None:
        """Give the item that is open, if there is one, to the collector."""
        if self._item_base is not None:
            _add_rss_item(
                self._out, self._item_base, self._link, self._guid, self._about, self._dates
            )
        self._begin(None)

    def end_cut_item(self) -> None:
        """The feed was cut inside an item: it counts if it has an address of its own."""
        if self._link or self._guid:
            self._end()

    def take(self, event: Event) -> bool:
        """Take an event; True: the feed is at its end."""
        name = event.name
        if name == "channel" and not event.closing:
            self._base = _base(self._base, event)
            self._depth += name == self._top
        elif name in ("item", self._top):
            self._end()
            if name == self._top:
                self._depth -= 1
                return not self._depth
            if not event.closing:
                self._open_item(event)
        elif name in _WITH_OWN_LINK:
            self._inside = _inside(self._inside, event)
        elif name == "link" and self._item_base is None and not self._inside:
            _take_hub(self._out, event, self._base)
        elif self._item_base is not None and event.whole and not self._inside:
            self._take_text(event)
        return False

    def _open_item(self, event: Event) -> None:
        attributes = attributes_of(event)
        self._begin(_base(self._base, event))
        self._about, self._link = attributes.get("rdf:about"), attributes.get("href")
        if event.empty:
            self._end()

    def _take_text(self, event: Event) -> None:
        attributes = attributes_of(event)
        if event.name == "link":
            is_alternate = attributes.get("rel", "alternate") == "alternate"
            href = attributes.get("href") if is_alternate else None
            self._link = self._link or event.text.strip() or href
        elif event.name == "guid":
            if attributes.get("ispermalink", "true").strip().lower() == "true":
                self._guid = self._guid or event.text.strip()
        elif event.name in _RSS_DATES:
            self._dates.setdefault(event.name, event.text)


def _add_rss_item(
    out: Collector,
    base: str,
    link: str | None,
    guid: str | None,
    about: str | None,
    dates: dict[str, str],
) -> None:
    if not link and guid and not guid.lower().startswith(("http://", "https://")):
        guid = None  # isPermaLink is true by default, yet many guids are bare numbers
    entry = out.page(link or guid or about or "", base)
    if entry is not None and entry.lastmod is None:
        entry.lastmod = _first_date(dates, "updated", "pubdate", "date", "published")


def read_atom(root: Event, scanner: Scanner, out: Collector) -> bool:
    """Entries of an Atom feed: the first `alternate` link (RFC 4287 4.2.7), within `xml:base`;
    without one, an `id` that is an address, as many are. True: the feed was whole.
    """
    base = _base(out.url, root)
    entry_base: str | None = None
    link: tuple[str, str] | None = None
    permalink: tuple[str, str] | None = None
    dates: dict[str, str] = {}
    inside: tuple[str, int] | None = None
    dated = ("updated", "published", "modified", "issued")
    for event in scanner.events(
        frozenset({"entry", "link", "id", *_NOT_THE_ENTRYS, *dated}),
        frozenset({"feed", "entry", *_NOT_THE_ENTRYS}),
        frozenset({"id", *dated}),
    ):
        name = event.name
        if name in ("entry", "feed"):
            if entry_base is not None:
                _atom_entry(out, link or permalink, dates)
            entry_base, link, permalink, dates, inside = None, None, None, {}, None
            if name == "feed":
                return True
            out.out.bad_entries += event.empty
            if not event.closing and not event.empty:
                entry_base = _base(base, event)
        elif name in _NOT_THE_ENTRYS:
            inside = _inside(inside, event)
        elif entry_base is None or inside:
            if name == "link" and not inside:
                _take_hub(out, event, base)
        elif name == "link":
            attributes = attributes_of(event)
            if (
                link is None
                and attributes.get("rel", "alternate").strip().lower() in _ALTERNATE
                and attributes.get("href")
            ):
                link = (attributes["href"], _base(entry_base, event))
        elif name == "id":
            text = event.text.strip()
            is_url = text.lower().startswith(("http://", "https://"))
            if event.whole and permalink is None and is_url:
                permalink = (text, entry_base)
        elif event.whole:
            dates.setdefault(name, event.text)
    if entry_base is not None and link is not None:
        _atom_entry(out, link, dates)
    return False


def _take_hub(out: Collector, event: Event, base: str) -> None:
    """A link of the feed itself, outside its entries."""
    attributes = attributes_of(event)
    out.hub(attributes.get("rel", ""), attributes.get("href", ""), _base(base, event))


def _inside(inside: tuple[str, int] | None, event: Event) -> tuple[str, int] | None:
    """The element with links of its own that holds the next tags, and how often it is open (HTML
    has a `summary` too); None: none.
    """
    name, depth = inside or (event.name, 0)
    if event.name != name or event.empty:
        return inside
    depth += -1 if event.closing else 1
    return (name, depth) if depth > 0 else None


def _atom_entry(out: Collector, link: tuple[str, str] | None, dates: dict[str, str]) -> None:
    entry = out.page(*link) if link else out.page("")
    if entry is not None and entry.lastmod is None:
        entry.lastmod = _first_date(dates, "updated", "modified", "published", "issued")


def _first_date(dates: dict[str, str], *names: str) -> float | None:
    return next(
        (when for name in names if name in dates and (when := feed_date(dates[name])) is not None),
        None,
    )


def _base(base: str, event: Event) -> str:
    """The base inside a tag: its `xml:base`, resolved against the base outside (XML Base 3)."""
    own = attributes_of(event).get("xml:base") if "base" in event.attributes else None
    try:
        return canonicalize(own, base, _AS_SENT) if own else base
    except Refused:
        return base
