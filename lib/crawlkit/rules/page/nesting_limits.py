"""Whether a page is built in linear time as it is, by counts of its tags alone: nearly all are.

What nesting_guard does to the others rests on the same limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_DEPTH = 512  # levels that browsers keep too
MAX_ATTRIBUTES = 200  # of one tag
MAX_OPEN_FORMATS = 30
MAX_ELEMENTS = 60_000  # that the tree is built of; the markup ends there
MAX_OPTIONS = 8_000  # of all selects: lexbor looks at all of one when it gets another
MAX_STEPS = 250_000  # of the scan: tags, runs of one start tag, comments
FEW_TAGS = 3000  # with fewer, even the square is cheap
# up to here nesting alone is cheap (well under a second), while formats x blocks is not
MANY_TAGS = 15_000
MAX_REOPENED = 4_000_000  # formatting elements x tags
MAX_CLIMBED = MANY_TAGS * MANY_TAGS // 2  # elements that may be open x tags, with more tags
LONG_TAG = 800  # bytes of a tag whose attributes are counted
# bytes of a link's or formatting element's tag x tags: it is opened again, attributes and all, in
# block after block
MAX_COPIED = 64_000_000

FORMATS = frozenset(b"b big code em font i nobr s small strike strong tt u".split())
# Not counted: void elements, and those whose start tag closes an open one of the same kind (they
# nest only inside counted ones).
UNCOUNTED = frozenset(
    b"area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    b" track wbr a li p dd dt option tr td th tbody thead tfoot caption colgroup html head "
    b"body".split()
)
SPACE = rb"\t\n\f\r "
_FORMAT_OPEN = re.compile(rb"<(?:%b)[%b/>]" % (b"|".join(sorted(FORMATS)), SPACE), re.IGNORECASE)
_FOREIGN = re.compile(rb"<(?:svg|math)[%b/>]" % SPACE, re.IGNORECASE)
_OPTION = re.compile(rb"<option[%b/>]" % SPACE, re.IGNORECASE)
_START = re.compile(rb"<[A-Za-z]")
_COUNTED_START = re.compile(
    rb"<(?!(?:%b)[%b/>])[A-Za-z]" % (b"|".join(sorted(UNCOUNTED | FORMATS)), SPACE),
    re.IGNORECASE,
)
_PLAIN_REST = (  # of a start tag that is written as is usual
    rb"(?:[%b][^<>\"']*+(?:\"[^\"<>]*+\"[^<>\"']*+|'[^'<>]*+'[^<>\"']*+)*+)?>" % SPACE
)
_CLOSED_FORMAT = re.compile(
    rb"<(%(f)b)%(r)b(?:[^<]++|<span%(r)b|</span>)*+</\1>"
    % {b"f": b"|".join(sorted(FORMATS)), b"r": _PLAIN_REST},
    re.IGNORECASE,
)
_CLOSED_AT_ONCE = re.compile(
    rb"<(div|h[1-6]|path|pre|span|strong|sup|time|use)%b[^<]*+</\1>" % _PLAIN_REST, re.IGNORECASE
)
ONE_ATTRIBUTE = (
    rb"[%(s)b/]*+[^%(s)b/>][^%(s)b/>=]*+(?:[%(s)b]*+=[%(s)b]*+(?:\"[^\"]*+\"?+|'[^']*+'?+"
    rb"|[^%(s)b>]*+))?+" % {b"s": SPACE}
)
ATTRIBUTE = re.compile(ONE_ATTRIBUTE)
_TAG = rb"[A-Za-z][^%b/>]*+(?>%b)*+[%b/]*+>?+" % (SPACE, ONE_ATTRIBUTE, SPACE)
_TAG_START = re.compile(rb"<(?=[A-Za-z])")
_TAG_REST = re.compile(_TAG)
_TOO_MANY = re.compile(rb"[A-Za-z][^%b/>]*+(?>%b){%d}" % (SPACE, ONE_ATTRIBUTE, MAX_ATTRIBUTES + 1))
_QUOTED_END = re.compile(rb"=[%b]*+(?:\"[^\">]*+>|'[^'>]*+>)" % SPACE)
_NAME_ENDS = (b"", b"\t", b"\n", b"\f", b"\r", b" ", b"/", b">")


def is_harmless(raw: bytes) -> bool:
    """Whether counts of tags alone say that nothing has to be cut."""
    tags = raw.count(b"<")
    if tags >= MANY_TAGS and (
        tags > MAX_ELEMENTS or _OPTION.search(raw) or (tags + 1) * _open_elements(raw) > MAX_CLIMBED
    ):
        return False
    if tags >= FEW_TAGS and (tags + 1) * _open_formats(raw) > MAX_REOPENED:
        return False
    longest = _longest_copy(raw)
    return longest is not None and tags * longest <= MAX_COPIED


def _open_elements(raw: bytes) -> int:
    """Start tags that may stay open, but for those that are closed behind mere text."""
    starts = (_START if _FOREIGN.search(raw) else _COUNTED_START).findall(raw)
    return len(starts) - len(_CLOSED_AT_ONCE.findall(raw)) + 1


def _open_formats(raw: bytes) -> int:
    """Start tags of formatting elements, but for those that are closed behind mere text and spans:
    these are never opened again.
    """
    return len(_FORMAT_OPEN.findall(raw)) - len(_CLOSED_FORMAT.findall(raw)) + 1


def _longest_copy(raw: bytes) -> int | None:
    """Bytes of the longest link or formatting element's start tag of more than LONG_TAG (0: none);
    None: a tag has more than MAX_ATTRIBUTES, or long ones are nested again and again.
    """
    longest = looked = 0
    for start, end in _long_tag_places(raw):
        for m in _TAG_START.finditer(raw, start, end):
            at = m.end()
            length = _TAG_REST.match(raw, at).end() - at  # type: ignore[union-attr]
            looked += length
            if looked > 4 * len(raw) or (length > LONG_TAG and _TOO_MANY.match(raw, at)):
                return None
            if length > max(LONG_TAG, longest) and (
                (raw[at] in b"aA" and raw[at + 1 : at + 2] in _NAME_ENDS)
                or _FORMAT_OPEN.match(raw, m.start())
            ):
                longest = length
    return longest


def _long_tag_places(raw: bytes) -> Iterator[tuple[int, int]]:
    """Where tags of more than LONG_TAG bytes may begin: far from the next ">", or where a quoted
    value goes on behind it. Most pages have no such place.
    """
    at, half = 0, LONG_TAG // 2  # without ">" for LONG_TAG bytes: half of them are looked at whole
    while at + half <= len(raw):
        if raw.find(b">", at, at + half) >= 0:
            at += half
            continue
        start, at = raw.rfind(b">", 0, at) + 1, raw.find(b">", at) + 1 or len(raw)
        if at - start > LONG_TAG:
            yield start, at - LONG_TAG
    for m in _QUOTED_END.finditer(raw):
        yield raw.rfind(b">", 0, m.start()) + 1, m.end()
