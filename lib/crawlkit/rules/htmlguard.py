"""What a page may not do to the parser: nesting, attributes and formatting whose cost would grow with their square.

The tree builder walks its stack of open elements at each tag, compares each attribute with all others of its tag, and
opens the active formatting elements again in each block. Pages below the limits (nearly all) are returned as they are
after a few byte counts; of the others, one linear scan drops the tags that are too much. Links and text are kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

MAX_DEPTH = 512  # levels that browsers keep too
MAX_ATTRIBUTES = 200  # of one tag
MAX_OPEN_FORMATS = 30
FEW_TAGS = 3000  # with fewer, even the square is cheap
MANY_TAGS = 15_000  # up to here nesting alone is (well under a second), while formats x blocks is not
MAX_REOPENED = 4_000_000  # formatting elements x tags
LONG_TAG = 4000  # characters without "<" in which attributes are counted

_FORMATS = frozenset("b big code em font i nobr s small strike strong tt u".split())
# Not counted: void elements, and those whose start tag closes an open one of the same kind (they nest only inside counted ones).
_UNCOUNTED = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr "
    "a li p dd dt option tr td th tbody thead tfoot caption colgroup rb rt rp rtc html head body".split()
)
_SCOPES = frozenset("applet marquee object table template svg math".split())  # an end tag reaches nothing outside of them
_FORMAT_OPEN = re.compile(rf"<(?:{'|'.join(sorted(_FORMATS))})[\s/>]".encode(), re.IGNORECASE)
_ATTRIBUTES = r"(?>[^>=]++|=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>]*+))*+>?"
# One token: a comment, an element whose content is text, a tag, or a declaration. Each alternative consumes what it has
# looked at, also when its end is missing, so that a scan is linear.
_TOKEN = re.compile(
    r"<(?:!--(?:-?>|(?>[^-]++|-(?!-!?>))*+(?:--!?>)?)"
    rf"|(?i:(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>]){_ATTRIBUTES}(?>[^<]++|<(?!/\1[\s/>]))*+)"
    rf"|(/?)([A-Za-z][^\s/>]*+){_ATTRIBUTES}"
    r"|[!?/][^>]*+>?)"
)
_ONE_ATTRIBUTE = r"[\s/]*+[^\s/>=][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s>]*+))?+"
_ATTRIBUTE = re.compile(_ONE_ATTRIBUTE)
_TOO_MANY = re.compile(rf"[A-Za-z][^\s/>]*+(?>{_ONE_ATTRIBUTE}){{{MAX_ATTRIBUTES + 1}}}".encode())


def guarded(raw: bytes) -> tuple[bytes, list[str]]:
    """Markup (UTF-8, as is `raw`) that the parser builds in linear time, and what was cut: too_deep, too_many_attributes, too_many_formats."""
    tags = raw.count(b"<") + 1
    if tags <= FEW_TAGS or (tags <= MANY_TAGS and tags * len(_FORMAT_OPEN.findall(raw)) <= MAX_REOPENED):
        if not any(_TOO_MANY.match(raw, start) for start in _long_stretches(raw)):
            return raw, []
    scan = _Scan(raw.decode("utf-8", "replace"))
    return (scan.result().encode("utf-8", "replace"), sorted(scan.cut)) if scan.run() else (raw, [])


def _long_stretches(raw: bytes) -> Iterator[int]:
    """Where more than LONG_TAG bytes begin that hold no "<"."""
    start = 0
    while start + LONG_TAG < len(raw):
        last = raw.rfind(b"<", start, start + LONG_TAG + 1)
        if last < 0:
            yield start
            last = raw.find(b"<", start + LONG_TAG)
            if last < 0:
                return
        start = last + 1


class _Scan:
    """A walk over the tags with a stack of open elements that is never smaller than the tree builder's.

    Start tags beyond the depth limit are dropped and counted by name, so that their end tags are dropped too.
    """

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self.out: list[str] = []
        self.copied = 0
        self.cut: set[str] = set()
        self.stack: list[str] = []
        self.places: defaultdict[str, list[int]] = defaultdict(list)  # name -> where it stands in the stack
        self.scopes: list[int] = []  # places of elements that no end tag reaches beyond
        self.dropped: defaultdict[str, int] = defaultdict(int)
        self.formats = dict.fromkeys(_FORMATS, 0)
        self.dropped_formats = dict.fromkeys(_FORMATS, 0)
        self.active = 0
        self.max_active = min(MAX_OPEN_FORMATS, max(2, 1_000_000 // (1 + markup.count("<"))))

    def run(self) -> bool:
        """Whether anything was dropped."""
        markup, stack, places, dropped, uncounted = self.markup, self.stack, self.places, self.dropped, _UNCOUNTED
        for m in _TOKEN.finditer(markup):
            name = m[3]
            if name is None:
                continue
            name = name.lower()
            start, end = m.span()
            if m[2]:
                if name not in uncounted and (self.end_format if name in _FORMATS else self.end)(name):
                    self.drop(start, end, "too_deep")
                continue
            if end - start > LONG_TAG:
                self.attributes(m)
            if name in uncounted or (markup[end - 2] == "/" and (places["svg"] or places["math"])):
                continue
            if name in _FORMATS:
                if self.start_format(name):
                    self.drop(start, end, "too_many_formats")
            elif len(stack) < MAX_DEPTH:
                if name in _SCOPES:
                    self.scopes.append(len(stack))
                places[name].append(len(stack))
                stack.append(name)
            else:
                dropped[name] += 1
                self.drop(start, end, "too_deep")
        return bool(self.cut)

    def result(self) -> str:
        return "".join(self.out) + self.markup[self.copied :]

    def drop(self, start: int, end: int, why: str) -> None:
        if start > self.copied:
            self.out.append(self.markup[self.copied : start])
        self.copied = end
        self.cut.add(why)

    def end(self, name: str) -> bool:
        """Closes the innermost open `name`; whether its start tag was dropped."""
        if self.dropped[name]:
            self.dropped[name] -= 1
            return True
        if self.places[name] and (not self.scopes or self.places[name][-1] >= self.scopes[-1]):
            self.dropped.clear()  # what is inside ends with it
            place = self.places[name][-1]
            for closed in self.stack[place:]:
                self.places[closed].pop()
            del self.stack[place:]
            while self.scopes and self.scopes[-1] >= place:
                self.scopes.pop()
        return False

    def start_format(self, name: str) -> bool:
        if self.active >= self.max_active:
            self.dropped_formats[name] += 1
            return True
        self.active += 1
        self.formats[name] += 1
        return False

    def end_format(self, name: str) -> bool:
        if self.dropped_formats[name]:
            self.dropped_formats[name] -= 1
            return True
        if self.formats[name]:
            self.formats[name] -= 1
            self.active -= 1
        return False

    def attributes(self, tag: re.Match[str]) -> None:
        """Drops what follows the last allowed attribute of an overlong tag."""
        pos = tag.end(3)
        for _ in range(MAX_ATTRIBUTES):
            m = _ATTRIBUTE.match(self.markup, pos, tag.end())
            if not m:
                return
            pos = m.end()
        if _ATTRIBUTE.match(self.markup, pos, tag.end()):
            self.drop(pos, tag.end() - self.markup.endswith(">", pos, tag.end()), "too_many_attributes")
