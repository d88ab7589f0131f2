"""What a page may not do to the parser: nesting, attributes and formatting whose cost would grow with their square, and tags without end.

The tree builder walks its stack of open elements at each tag, compares each attribute with all others of its tag, and
opens the active formatting elements again in each block. Pages below the limits (nearly all) are returned as they are
after a few byte counts; of the others, one linear scan drops the tags that are too much. Links and text are kept, up to
MAX_ELEMENTS elements.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

MAX_DEPTH = 512  # levels that browsers keep too
MAX_ATTRIBUTES = 200  # of one tag
MAX_OPEN_FORMATS = 30
MAX_ELEMENTS = 60_000  # that the tree is built of; the markup ends there
MAX_STEPS = 250_000  # of the scan: tags or runs of one tag
FEW_TAGS = 3000  # with fewer, even the square is cheap
MANY_TAGS = 15_000  # up to here nesting alone is (well under a second), while formats x blocks is not
MAX_REOPENED = 4_000_000  # formatting elements x tags
LONG_TAG = 4000  # bytes without "<" in which attributes are counted

_FORMATS = frozenset(b"b big code em font i nobr s small strike strong tt u".split())
# Not counted: void elements, and those whose start tag closes an open one of the same kind (they nest only inside counted ones).
_UNCOUNTED = frozenset(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr "
    b"a li p dd dt option tr td th tbody thead tfoot caption colgroup rb rt rp rtc html head body".split()
)
_SCOPES = frozenset(b"applet marquee object table template svg math".split())  # an end tag reaches nothing outside of them
_FORMAT_OPEN = re.compile(rb"<(?:%b)[\s/>]" % b"|".join(sorted(_FORMATS)), re.IGNORECASE)
_ATTRIBUTES = rb"(?>[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>]*+))*+>?"
# One token: a comment, an element whose content is text, a tag with those just like it that follow at once, a declaration, or
# "<" that stand for themselves. Each alternative consumes what it has looked at, also when its end is missing, so that a scan
# is linear.
_TOKEN = re.compile(
    rb"<(?:!--(?:-?>|(?>[^-]++|-(?!-!?>))*+(?:--!?>)?)"
    rb"|(?i:(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>])" + _ATTRIBUTES + rb"(?>[^<]++|<(?!/\1[\s/>]))*+)"
    rb"|((/?)([A-Za-z][^\s/>]*+)" + _ATTRIBUTES + rb")(?:<\2)*+"
    rb"|[!?/][^>]*+>?"
    rb"|(?:<(?=<))*+)"
)
_ONE_ATTRIBUTE = rb"[\s/]*+[^\s/>=][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>]*+))?+"
_ATTRIBUTE = re.compile(_ONE_ATTRIBUTE)


def guarded(raw: bytes) -> tuple[bytes, list[str]]:
    """Markup (UTF-8, as is `raw`) that the parser builds in linear time, and what was cut.

    The cuts: too_deep, too_many_attributes, too_many_formats, too_many_tags (what follows them is lost).
    """
    tags, formats, many = _tag_counts(raw, LONG_TAG, MAX_ATTRIBUTES)
    if not many and (tags < FEW_TAGS or (tags < MANY_TAGS and (tags + 1) * formats <= MAX_REOPENED)):
        return raw, []
    if _is_calm and _is_calm(raw, MAX_DEPTH, _max_active(tags), MAX_ELEMENTS, LONG_TAG, MAX_ATTRIBUTES):
        return raw, []
    scan = _Scan(raw)
    scan.run()
    return (scan.result(), sorted(scan.cut)) if scan.cut else (raw, [])


def tag_counts(raw: bytes, long: int, most: int) -> tuple[int, int, bool]:
    """Twin of `_scan.tag_counts`: tags, start tags of formatting elements (where they matter), whether a tag has too many attributes."""
    tags = raw.count(b"<")
    too_many = re.compile(rb"[A-Za-z][^\s/>]*+(?>%b){%d}" % (_ONE_ATTRIBUTE, most + 1))
    many = any(too_many.match(raw, start) for start in _long_stretches(raw, long))
    return tags, len(_FORMAT_OPEN.findall(raw)) if FEW_TAGS <= tags < MANY_TAGS else 0, many


try:
    from crawlkit.rules._scan import is_calm as _is_calm
    from crawlkit.rules._scan import tag_counts as _tag_counts
except ImportError:
    _is_calm, _tag_counts = None, tag_counts


def _max_active(tags: int) -> int:
    """Formatting elements that may be open at once on a page with so many tags."""
    return min(MAX_OPEN_FORMATS, max(2, 1_000_000 // (1 + tags)))


def _long_stretches(raw: bytes, long: int) -> Iterator[int]:
    """Where more than `long` bytes begin, behind a "<", that hold no other."""
    start = raw.find(b"<") + 1
    while start and start + long < len(raw):
        last = raw.rfind(b"<", start, start + long + 1)
        if last < 0:
            yield start
            last = raw.find(b"<", start + long)
        start = last + 1


class _Scan:
    """A walk over the tags with a stack of open elements that is never smaller than the tree builder's.

    Start tags beyond the depth limit are dropped and counted by name, so that their end tags are dropped too.
    """

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.out: list[bytes] = []
        self.copied = 0
        self.cut: set[str] = set()
        self.stack: list[bytes] = []
        self.places: defaultdict[bytes, list[int]] = defaultdict(list)  # name -> where it stands in the stack
        self.scopes: list[int] = []  # places of elements that no end tag reaches beyond
        self.dropped: defaultdict[bytes, int] = defaultdict(int)
        self.formats = dict.fromkeys(_FORMATS, 0)
        self.dropped_formats = dict.fromkeys(_FORMATS, 0)
        self.active = 0
        self.max_active = _max_active(raw.count(b"<"))

    def run(self) -> None:
        raw, places, uncounted = self.raw, self.places, _UNCOUNTED
        elements = steps = 0
        for m in _TOKEN.finditer(raw):
            steps += 1
            name, (start, end) = m[4], m.span()
            if name is None:
                elements += m[1] is not None
                if end - start > LONG_TAG and raw[start + 1] == 0x3C:
                    self.drop(start + LONG_TAG, end, "too_many_tags")  # each "<" is a token of its own
                continue
            name = name.lower()
            unit = 1 + m.end(2) - m.start(2)
            times = (end - start) // unit
            keep = times
            if m[3]:
                if name not in uncounted:
                    keep = (self.end_formats if name in _FORMATS else self.ends)(name, times)
                elements += keep - 1 if name in (b"p", b"br") else 0  # end tags that make elements, where nothing is open
                if keep < times:
                    self.drop(start, start + (times - keep) * unit, "too_deep")
            else:
                if unit > LONG_TAG:
                    self.attributes(m)
                if name in _FORMATS:
                    keep = self.start_formats(name, times)
                elif name not in uncounted and (raw[end - 2] != 0x2F or not (places[b"svg"] or places[b"math"])):
                    keep = self.starts(name, times)
                elements += keep
                if keep < times:
                    self.drop(start + keep * unit, end, "too_many_formats" if name in _FORMATS else "too_deep")
            if elements > MAX_ELEMENTS or steps > MAX_STEPS:
                self.drop(max(start, end - max(0, elements - MAX_ELEMENTS) * unit), len(raw), "too_many_tags")
                return

    def result(self) -> bytes:
        return b"".join(self.out) + self.raw[self.copied :]

    def drop(self, start: int, end: int, why: str) -> None:
        if start > self.copied:
            self.out.append(self.raw[self.copied : start])
        self.copied = max(self.copied, end)
        self.cut.add(why)

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
        """Closes the innermost open `name` so many times; how many of the end tags stay, the last ones."""
        dropped = min(times, self.dropped[name])
        self.dropped[name] -= dropped
        for _ in range(times - dropped):
            if not self.places[name] or (self.scopes and self.places[name][-1] < self.scopes[-1]):
                break  # this one and the next reach nothing
            self.dropped.clear()  # what is inside ends with it
            place = self.places[name][-1]
            for closed in self.stack[place:]:
                self.places[closed].pop()
            del self.stack[place:]
            while self.scopes and self.scopes[-1] >= place:
                self.scopes.pop()
        return times - dropped

    def start_formats(self, name: bytes, times: int) -> int:
        keep = min(times, max(0, self.max_active - self.active))
        self.active += keep
        self.formats[name] += keep
        self.dropped_formats[name] += times - keep
        return keep

    def end_formats(self, name: bytes, times: int) -> int:
        dropped = min(times, self.dropped_formats[name])
        self.dropped_formats[name] -= dropped
        closed = min(times - dropped, self.formats[name])
        self.formats[name] -= closed
        self.active -= closed
        return times - dropped

    def attributes(self, tag: re.Match[bytes]) -> None:
        """Drops what follows the last allowed attribute of an overlong tag (and those just like it behind it)."""
        pos, end = tag.end(4), tag.end(2)
        for _ in range(MAX_ATTRIBUTES):
            m = _ATTRIBUTE.match(self.raw, pos, end)
            if not m:
                return
            pos = m.end()
        if _ATTRIBUTE.match(self.raw, pos, end):
            self.drop(pos, tag.end() - self.raw.endswith(b">", pos, end), "too_many_attributes")
