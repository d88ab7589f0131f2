"""Markup that hides from the guard what the tree builder sees: lexbor's own tree and time are the
measure.
"""

import resource

import pytest
from crawlkit.rules.page import nesting_guard as htmlguard, nesting_limits
from crawlkit.rules.page.nesting_guard import MAX_DEPTH, MAX_ELEMENTS, guard_nesting
from hypothesis import example, given, strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.cputime import within
from tests.examples import examples

NAMES = b" ".join(b"a%x" % n for n in range(50_000))
LETTERS = b"x" * 1_000_000
# What is wrong with each: the page in which the guard once saw less than the parser.
DEEP = {
    "= begins a name": b'<p ="><b>' + b"<div>" * 100_000 + b'">',
    "= behind a value": b'<p a="b"="><b>' + b"<div>" * 100_000 + b'">',
    "VT is no space": b"<script\x0b>" + b"<div>" * 100_000,
    "VT before a value": b'<p a=\x0b">' + b"<div>" * 100_000 + b'">',
    "title in svg is HTML": b"<svg><title>" + b"<div>" * 100_000,
    "style in svg is markup": b"<svg><style>" + b"<g>" * 50_000,
    "style in select is no element": b"<select><style><template>" + b"<div>" * 100_000,
    "style in frameset is no element": b"<frameset><style>" + b"<frameset>" * 50_000,
    "end tags in CDATA": b"<svg>" + b"<g><![CDATA[></g>]]>" * 50_000,
    "end tags in a script": b"<div><script><!--<script></script></div>--></script>" * 30_000,
    "links nest in svg": b"<svg>" + b"<a>" * 50_000,
    "/> closes no div": b"<svg></b><table>" + b"</ul><math><DIV/>" * 30_000,
    "/> closes nothing in foreignObject": b"<svg><foreignObject>" + b"<x/>" * 50_000,
    "rt nests without ruby": b"<object>" + b"<rt>" * 50_000,
    "a cut joins what is beside it": b"<q>" * 512 + b"<<div>div>" * 30_000,
}
SLOW = {
    "attributes behind <": b"<a " + NAMES.replace(b"00 ", b"00< ") + b">",
    "attributes behind =": b"<a = " + NAMES + b">",
    "attributes of a script": b"<script " + NAMES + b">",
    "attributes below the limit": (
        b"".join(
            b"<a " + NAMES[at : at + 3990].replace(b">", b"") + b">"
            for at in range(0, 200_000, 4000)
        )
        * 20
    ),
    "a name through all": (b"<" + b"y" * 4001) * 1200,
    "a quote through all": (b"<a x=' " + b"y" * 4001) * 1200,
    "end tags of nothing": b"<q>" * 500 + b"</x>" * 1_500_000,
    "end tags almost of the open ones": (
        b"".join(b"<%s%03d>" % (b"a" * 1000, n) for n in range(500))
        + (b"</" + b"a" * 1000 + b"999><b></b>") * 8000
    ),
    "options": b"<select>" + b"<option>" * 50_000,
    "declarations": b"<!>" * 2_000_000,
    "closed in svg": b"<svg>" + b"<g/>" * 1_000_000,
    "a link opened again": b"<p><a href='" + LETTERS + b"'></p>" + b"<p>x</p>" * 1400,
    "a format opened again": b"<p><b class='" + LETTERS + b"'></p>" + b"<p>x</p>" * 1400,
}


@pytest.mark.waits
@pytest.mark.parametrize("page", DEEP.values(), ids=DEEP)
def test_nothing_nests_deeper_than_the_limit(page):
    raw, cut = guard_nesting(page)
    depth = {}
    for node in LexborHTMLParser(raw).root.traverse():
        depth[node.mem_id] = depth.get(node.parent.mem_id if node.parent else 0, 0) + 1
    assert max(depth.values()) <= MAX_DEPTH + 8 and len(depth) <= 2 * MAX_ELEMENTS + 8 and cut


@pytest.mark.waits
@pytest.mark.parametrize("page", SLOW.values(), ids=SLOW)
def test_no_page_takes_a_second_or_a_hundred_times_its_bytes(page):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    within(1, lambda: LexborHTMLParser(guard_nesting(page)[0]))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB


def test_what_only_looks_so_is_left_alone():
    page = (
        b'<title>t</title><script>if (a<b) s = "<!--'
        b' </div>"</script><svg><title>Icon</title><style><![CDATA[a > b {}]]></style><g/><a'
        b" href=/s>y</a></svg><select>" + b"<option>z" * 100 + b"</select>"
    )
    page = page * 10 + b'<div class="a>b"><ul>' + b"<li>x<i>y</i></li>" * 10_000 + b"</ul></div>"
    assert guard_nesting(page) == (page, [])


@pytest.mark.parametrize(
    "script, ends",
    [
        (b"a<b</script >", 3),
        (b"<!-- <script></script>--></script>", 25),
        (b"<!--><script></script>", 13),
        (b"<!-- </script>", 5),
        (b"<!-- <script></script></script>", 22),
        (b"</scriptx>", 10),
    ],
)
def test_a_script_ends_where_the_standard_says(script, ends):
    """13.2.5.4 and 13.2.5.17 to 13.2.5.31; lexbor says the same."""
    assert htmlguard._script_end(script, 0) == ends
    assert LexborHTMLParser(b"<body><script>" + script + b"<p>").css_first(
        "script"
    ).text() == script[:ends].decode() or ends == len(script)


PIECES = (
    b"< </ > <b> </b> <I </i> <em <div> </div> <DIV/> <table> <svg> </svg> <g/> <!-- --> --!>"
    b" <!--> - <!x> <?y> <script> </script> <title </title> <sCript/ <a> </a> <![CDATA[ ]]>"
    b' <style> </style> = =\' =" \' " x / \n <code <code> </code> <span> <span </span> >" <a'
).split() + [b" ", b"x ", b"\x0b", b"0" * 20, b' class="c">', b" x='y'"]
MARKUP = st.lists(st.sampled_from(PIECES), max_size=50).map(b"".join)


@examples(400)
@given(MARKUP)
@example(b"<b title='>x</b>' ><i>")
@example(b"<a x='<b>'>y</b><b>")
@example(b"<code><span class='a'>x</span></code><!-- <b></b>")
def test_no_more_formats_are_open_at_once_than_are_counted(raw):
    class Counting(htmlguard._Scan):
        most = 0

        def start_formats(self, name: bytes, times: int) -> int:
            keep = super().start_formats(name, times)
            self.most = max(self.most, self.active)
            return keep

    scan = Counting(raw)
    scan.max_active = 10**9
    scan.run()
    assert scan.most <= nesting_limits._open_formats(raw)


@examples(400)
@given(MARKUP)
@example(b"<svg><a><td></a><span>x</span>")
@example(b"<div title='<span>x</span>'><g/><g/>")
def test_no_more_elements_are_open_at_once_than_are_counted(raw):
    class Counting(htmlguard._Scan):
        most = 0

        def starts(self, name: bytes, times: int) -> int:
            keep = super().starts(name, times)
            self.most = max(self.most, len(self.stack))
            return keep

    scan = Counting(raw)
    scan.run()
    assert scan.most <= nesting_limits._open_elements(raw)


def test_a_long_page_of_closed_elements_is_left_alone():
    many = nesting_limits.MANY_TAGS
    flat = b"<p><span class='x'>y</span>" * many
    assert nesting_limits.is_harmless(b"<div>" + flat)
    assert not nesting_limits.is_harmless(b"<div>" * many + flat)
    assert not nesting_limits.is_harmless(b"<option>" + flat)
    assert not nesting_limits.is_harmless(flat * 2)


@examples(400)
@given(MARKUP, st.sampled_from([4, 12, 40]))
@example(b'<a x=">' + b"y" * 50 + b'">', 40)
@example(b"<a x='<b y=\">" + b"z" * 50 + b"'>", 40)
def test_no_long_tag_is_missed(raw, long):
    """Wherever a tag may begin, also inside of what may be a script, a comment or another tag."""
    lengths = [
        nesting_limits._TAG_REST.match(raw, m.end()).end() - m.end()
        for m in nesting_limits._TAG_START.finditer(raw)
        if nesting_limits._FORMAT_OPEN.match(raw, m.start()) or raw[m.end() : m.end() + 2] in LINKS
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nesting_limits, "LONG_TAG", long)
        found = nesting_limits._longest_copy(raw)
    # None: the closer look is taken
    assert found in (None, max((n for n in lengths if n > long), default=0))


LINKS = [a + end for a in (b"a", b"A") for end in (b"", *(bytes([c]) for c in b"\t\n\f\r />"))]
