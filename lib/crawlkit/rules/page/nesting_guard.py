"""What a page may not do to the parser: nesting, attributes and formatting whose cost would grow
with their square, and tags without end.

The tree builder walks its stack of open elements at each tag, compares each attribute with all
others of its tag, and opens the active formatting elements again in each block. Pages below the
limits (nearly all) are returned as they are after a few byte counts; of the others, one linear scan
drops the tags that are too much. Links and text are kept, up to MAX_ELEMENTS elements.
"""

from __future__ import annotations

import re
from collections import defaultdict

from crawlkit.rules.page.nesting_limits import (
    ATTRIBUTE,
    FORMATS,
    LONG_TAG,
    MAX_ATTRIBUTES,
    MAX_COPIED,
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_OPEN_FORMATS,
    MAX_OPTIONS,
    MAX_STEPS,
    ONE_ATTRIBUTE,
    SPACE,
    UNCOUNTED,
    is_harmless,
)

# of UNCOUNTED, the ones that end svg and math (13.2.6.5); the others nest there
_LEAVING = frozenset(b"dd dt li p br hr img embed meta body head".split())
_BREAKING = frozenset(
    b"blockquote center div dl h1 h2 h3 h4 h5 h6 listing menu ol pre ruby span sub sup ul "
    b"var table".split()
)  # so do these: "/>" closes none of them
# in which HTML goes on, and "/>" closes nothing
_INNER = tuple(b"foreignobject desc mi mo mn ms mtext annotation-xml".split())
# an end tag reaches nothing outside of them
_SCOPES = frozenset(b"applet marquee object table template svg math".split())
# in which the tree builder may read a style, script or title as markup
_APART = tuple(b"svg math select frameset".split())
# One token: a comment, a tag with those just like it that follow at once (not where its element's
# content is text), a declaration, or "<" that stand for themselves. Each alternative consumes what
# it has looked at, also when its end is missing, so that a scan is linear.
_TOKEN = re.compile(
    rb"<(?:!--(?:-?>|(?>[^-]++|-(?!-!?>))*+(?:--!?>)?)"
    rb"|(?i:(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[%(s)b/>]))(?>"
    rb"%(a)b)*+[%(s)b/]*+>?+"
    rb"|((/?)([A-Za-z][^%(s)b/>]*+)(?>%(a)b)*+[%(s)b/]*+>?+)(?:<\2)*+"
    rb"|[!?/][^>]*+>?"
    rb"|(?:<(?=<))*+)" % {b"s": SPACE, b"a": ONE_ATTRIBUTE}
)
_TEXT_ENDS = {
    name: re.compile(rb"</%b(?=[%b/>])" % (name, SPACE), re.IGNORECASE)
    for name in b"style textarea title xmp iframe noembed noframes script".split()
}
MAX_LATE_ADDRESSES = 2  # kept of those behind MAX_ATTRIBUTES
_NO_ADDRESSES = re.compile(
    rb"(?:(?![%b/]*+(?:href|src)[%b=])%b)*+" % (SPACE, SPACE, ONE_ATTRIBUTE), re.IGNORECASE
)
_SCRIPT_MARKS = re.compile(rb"<!(?=--)|-->|<(/?)script(?=[%b/>])" % SPACE, re.IGNORECASE)


def guard_nesting(raw: bytes) -> tuple[bytes, list[str]]:
    """Markup (UTF-8, as is `raw`) that the parser builds in linear time, and what was cut.

    The cuts: too_deep, too_many_attributes, too_many_formats, too_many_tags (what follows them is
    lost).
    """
    return (raw, []) if is_harmless(raw) else _cut(raw)


def _cut(raw: bytes) -> tuple[bytes, list[str]]:
    scan = _Scan(raw)
    scan.run()
    return (scan.result(), sorted(scan.cut)) if scan.cut else (raw, [])


def _max_active(tags: int) -> int:
    """Formatting elements that may be open at once on a page with so many tags."""
    return min(MAX_OPEN_FORMATS, max(2, 1_000_000 // (1 + tags)))


def _max_bytes(tags: int) -> int:
    """Bytes of a link's or formatting element's start tag, with its brackets, on a page with so
    many tags.
    """
    return max(LONG_TAG, MAX_COPIED // (1 + tags))


def _script_end(raw: bytes, pos: int) -> int:
    """Where the end tag of a script begins whose content begins at `pos`, or the end (HTML
    13.2.5.17 and on: "<!--" and "<script" in it shield the next one).
    """
    escaped = 0
    for m in _SCRIPT_MARKS.finditer(raw, pos):
        if m[1] is None:
            escaped = (escaped or 1) if m[0] == b"<!" else 0
        elif m[1] and escaped < 2:
            return m.start()
        elif escaped:
            escaped = 1 if m[1] else 2
    return len(raw)


class _Scan:
    """A walk over the tags with a stack of open elements that is never smaller than the tree
    builder's.

    Start tags beyond the depth limit are dropped and counted by name, so that their end tags are
    dropped too.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.out: list[bytes] = []
        self.copied = 0
        self.cut: set[str] = set()
        self.stack: list[bytes] = []
        # name -> its place in the stack
        self.places: defaultdict[bytes, list[int]] = defaultdict(list)
        self.scopes: list[int] = []  # places of elements that no end tag reaches beyond
        self.dropped: defaultdict[bytes, int] = defaultdict(int)
        self.formats = dict.fromkeys(FORMATS, 0)
        self.dropped_formats = dict.fromkeys(FORMATS, 0)
        self.active = 0
        self.max_active, self.max_bytes = _max_active(raw.count(b"<")), _max_bytes(raw.count(b"<"))
        self.elements = self.steps = self.options = 0

    def run(self) -> None:
        """Walks over the whole page."""
        pos = 0
        while pos < len(self.raw):
            pos = self.tags(pos)

    def tags(self, pos: int) -> int:
        """Walks over the tags from `pos`; where to go on."""
        raw = self.raw
        for m in _TOKEN.finditer(raw, pos):
            self.steps += 1
            pos, unit = 0, m.end() - m.start()
            if m[1]:
                self.elements += 1
                if unit > LONG_TAG:
                    self.attributes(m[1], m.end(1), m.end(), m.end())
                pos = self.text(m)
            elif m[4] is None:
                pos = self.no_tag(m, unit)
            else:
                unit = 1 + m.end(2) - m.start(2)
                (self.end_tags if m[3] else self.start_tags)(m, m[4].lower(), unit)
            over = max(self.elements - MAX_ELEMENTS, self.steps - MAX_STEPS)
            if over > 0:
                self.drop(max(m.start(), m.end() - over * unit), len(raw), "too_many_tags")
                return len(raw)
            if pos:
                return pos
        return len(raw)

    def no_tag(self, m: re.Match[bytes], length: int) -> int:
        """A comment, a declaration, or "<" that stand for themselves: where to go on, 0: behind."""
        if self.raw.startswith(b"<![CDATA[", m.start()) and (
            self.places[b"svg"] or self.places[b"math"]
        ):
            return self.section(m.start())
        if length > LONG_TAG and self.raw[m.start() + 1] == 0x3C:  # each "<" is a token of its own
            self.drop(m.start() + LONG_TAG, m.end(), "too_many_tags")
        return 0

    def end_tags(self, m: re.Match[bytes], name: bytes, unit: int) -> None:
        """A run of end tags that are identical, of `unit` bytes each."""
        keep = times = (m.end() - m.start()) // unit
        if name not in UNCOUNTED or self.places[name]:
            keep = (self.end_formats if name in FORMATS else self.ends)(name, times)
        if name in (b"p", b"br"):  # they make elements where nothing is open
            self.elements += keep - 1
        if keep < times:
            self.drop(m.start(), m.start() + (times - keep) * unit, "too_deep")

    def start_tags(self, m: re.Match[bytes], name: bytes, unit: int) -> None:
        """A run of start tags that are identical, of `unit` bytes each."""
        keep = times = (m.end() - m.start()) // unit
        why = "too_deep"
        if unit > LONG_TAG:
            self.attributes(name, m.end(4), m.end(2), m.end())
        if name in FORMATS:
            keep, why = self.start_formats(name, times), "too_many_formats"
        elif name == b"option" and self.options + times > MAX_OPTIONS:
            keep, why = max(0, MAX_OPTIONS - self.options), "too_many_tags"
        elif self.counted(name, self.raw[m.end() - 2] == 0x2F):
            keep = self.starts(name, times)
        self.elements += keep
        if name == b"option":
            self.options += keep
        if keep < times:
            self.drop(m.start() + keep * unit, m.end(), why)

    def text(self, tag: re.Match[bytes]) -> int:
        """Behind the content of an element that is text.

        Where that may be markup it is made so: its start tag is dropped.
        """
        start, end = tag.span()
        name = tag[1].lower()
        if not any(self.places[apart] for apart in _APART):
            if name == b"script":
                return _script_end(self.raw, end)
            close = _TEXT_ENDS[name].search(self.raw, end)
            return close.start() if close else len(self.raw)
        following = self.raw.find(b"<", end)
        behind = (
            self.raw.find(b"<", following + 1)
            if following >= 0 and self.raw.startswith(b"<![CDATA[", following)
            else -1
        )
        if behind >= 0 and self.raw.find(b"]]>", following, behind) >= 0:
            following = behind  # a section without "<" is no tag either way
        if following >= 0 and not _TEXT_ENDS[name].match(self.raw, following):
            self.drop(start, end, "too_deep")
        return end

    def section(self, start: int) -> int:
        """Behind the mark of a CDATA section inside svg or math; it is dropped where tags follow,
        which may be text or not.
        """
        following = self.raw.find(b"<", start + 1)
        if following < 0 or self.raw.find(b"]]>", start, following) >= 0:
            return following if following >= 0 else len(self.raw)
        self.drop(start, start + 9, "too_deep")
        return start + 9

    def result(self) -> bytes:
        """The page without what was dropped."""
        return b"".join(self.out) + self.raw[self.copied :]

    def drop(self, start: int, end: int, why: str) -> None:
        """Leaves out the bytes from `start` to `end`."""
        if start > self.copied:
            self.out.append(self.raw[self.copied : start])
            if self.raw[start - 1] == 0x3C:
                self.out.append(b" ")  # a "<" that stood for itself begins nothing of what follows
        self.copied = max(self.copied, end)
        self.cut.add(why)

    def counted(self, name: bytes, closed: bool) -> bool:
        """Whether a start tag may open an element that stays open; `closed`: it ends in "/>"."""
        if not (self.places[b"svg"] or self.places[b"math"]):
            return name not in UNCOUNTED
        return name not in _LEAVING and (
            not closed or name in _BREAKING or any(self.places[inner] for inner in _INNER)
        )

    def starts(self, name: bytes, times: int) -> int:
        """Opens `name` so many times; how many of the start tags stay."""
        depth = len(self.stack)
        keep = min(times, MAX_DEPTH - depth)
        if keep:
            if name in _SCOPES:
                self.scopes.extend(range(depth, depth + keep))
            self.places[name].extend(range(depth, depth + keep))
            self.stack.extend([name] * keep)
        if keep < times:
            self.dropped[name] += times - keep
        return keep

    def ends(self, name: bytes, times: int) -> int:
        """Closes the innermost open `name` so many times; how many of the end tags stay, the last
        ones.
        """
        dropped = min(times, self.dropped[name])
        self.dropped[name] -= dropped
        for left in range(times - dropped, 0, -1):
            if not self.places[name] or (self.scopes and self.places[name][-1] < self.scopes[-1]):
                self.steps += (
                    left - 1
                    # this one and the next reach nothing: the parser looks through its stack for
                    # each
                )
                break
            self.dropped.clear()  # what is inside ends with it
            place = self.places[name][-1]
            for closed in self.stack[place:]:
                self.places[closed].pop()
            del self.stack[place:]
            while self.scopes and self.scopes[-1] >= place:
                self.scopes.pop()
        return times - dropped

    def start_formats(self, name: bytes, times: int) -> int:
        """Opens a formatting element so many times; how many of the start tags stay."""
        keep = min(times, max(0, self.max_active - self.active))
        self.active += keep
        self.formats[name] += keep
        self.dropped_formats[name] += times - keep
        return keep

    def end_formats(self, name: bytes, times: int) -> int:
        """Closes it so many times; how many of the end tags stay."""
        dropped = min(times, self.dropped_formats[name])
        self.dropped_formats[name] -= dropped
        closed = min(times - dropped, self.formats[name])
        self.formats[name] -= closed
        self.active -= closed
        return times - dropped

    def attributes(self, name: bytes, pos: int, end: int, last: int) -> None:
        """Drops what follows the last allowed attribute of an overlong tag (and those just like it
        behind it, up to `last`), but for the first that hold a short address; `pos`: behind
        its name.
        """
        copied = name == b"a" or name in FORMATS
        most = 0 if copied and 1 + len(name) + end - pos > self.max_bytes else MAX_ATTRIBUTES
        for _ in range(most):
            m = ATTRIBUTE.match(self.raw, pos, end)
            if not m:
                return
            pos = m.end()
        for _ in range(MAX_LATE_ADDRESSES):
            at = _NO_ADDRESSES.match(self.raw, pos, end).end()  # type: ignore[union-attr]
            m = ATTRIBUTE.match(self.raw, at, end)
            if not m or m.end() - at > LONG_TAG // 2:
                break
            if at > pos:
                self.drop(pos, at, "too_many_attributes")
            pos = m.end()
        if ATTRIBUTE.match(self.raw, pos, end):
            self.drop(pos, last - self.raw.endswith(b">", pos, end), "too_many_attributes")
