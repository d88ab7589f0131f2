"""Author and day of a page as its readers see them."""

import time

import pytest
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.page.metadata import read_metadata
from crawlkit.rules.text.byline import read_name

URL = "https://site.example/a"
LINES = [
    ("By Ann Author", "Ann Author"),
    ("Written by: Ann Author | 3 min read", "Ann Author"),
    ("Posted by ann_42 on May 3, 2025", "ann_42"),
    ("von Änne Autor", "Änne Autor"),
    ("Ann Author, Ben Writer", "Ann Author, Ben Writer"),
    ("Bybee Author", "Bybee Author"),
    ("Ann Author is a writer who lives in Rome and has a boat.", "Ann Author"),
    ("https://social.example/ann", None),
    ("Share this", None),
    ("x" * 200, None),
    ("", None),
    (None, None),
]


@pytest.mark.parametrize(("line", "name"), LINES)
def test_names_in_bylines(line, name):
    assert read_name(line) == name


H = "<title>x</title><h1>A boat</h1>"
OTHERS = (
    "<div class=comments><span class=author>Con</span><time datetime=2020-01-01>x</time></div>"
    "<footer><a rel=author href=/us>The Firm</a></footer>"
)
PAGES = [
    (f"{H}<p>By <a rel=author href=/ann>Ann Author</a> May 3, 2025</p>", "Ann Author"),
    (f"{H}<span class='post-author'>by Ann Author</span> 3 May 2025", "Ann Author"),
    (f"{H}<div class=meta><span class=byline__name>Ann Author</span></div>3.5.2025", "Ann Author"),
    (
        f"{H}<p itemprop=author itemscope><b itemprop=name>Ann Author</b> sails</p><p>2025-05-03",
        "Ann Author",
    ),
    (
        "<title>t</title><table><tr><td>05-03-2025, 09:03 AM<td><a class=bigusername>ann</a>",
        "ann",
    ),
    (f"{H}<a rel=author>\n  By Ann\n  Author\n</a> May 3, 2025", "Ann Author"),
    (f"{H}<p class=author><i>By</i> <b>Ann Author</b><i>Staff</i><p>May 3, 2025", "Ann Author"),
    (f"{H}<p class=author>Ann Author<br>\nSails</p>May 3, 2025", "Ann Author"),
    (
        "<meta name=author content='https://social.example/site'>"
        f"{H}<i class=author>Ann Author</i><p>Updated May 3, 2025",
        "Ann Author",
    ),
    (
        "<meta property=og:site_name content='Site'><meta name=author content=Site>"
        f"{H}<i class=author>Ann Author</i><p>May 3, 2025",
        "Ann Author",
    ),
]


@pytest.mark.parametrize(("markup", "author"), PAGES)
def test_what_readers_see(markup, author):
    for page in (markup + OTHERS, markup):
        meta = read_metadata(read_html(page), (), None, (URL,))
        assert meta.author == author
    assert meta.published_on in ("2025-05-03",)


def test_metadata_come_first():
    told = '<meta name=author content="Ben Writer"><meta property="article:published_time"'
    markup = told + f' content="2025-05-04T23:30:00-05:00">{PAGES[0][0]}'
    meta = read_metadata(read_html(markup), (), None, (URL,))
    assert (meta.author, meta.published_on) == ("Ben Writer", "2025-05-04")
    assert meta.published == "2025-05-04T23:30:00-05:00"


def test_all_authors_of_the_entity():
    entity = {"@type": "Article", "author": [{"name": "Ann"}, {"name": "Ben"}, {"name": "Ann"}]}
    assert read_metadata(read_html(H), [entity], None, (URL,)).author == "Ann, Ben"


NO_DAY = [
    f"{H}<p>{'A long paragraph that mentions May 3, 2025. ' * 9}</p>",
    f"{H}<p>Joined: May 3, 2025</p>",
    f"{H}<p>Ann Author (3 May 1995 – 5 June 2020) was a sailor.</p>",
    f"{H}<p>May 3, 2025 to May 5, 2025</p>",
    f"{H}<p>Delivery by 3 May 2025</p>",
    f"{H}<p>© May 3, 2025 The Firm</p>",
    f"{H}{'<p>x</p>' * 40}<p>May 3, 2025</p>",
]


@pytest.mark.parametrize("markup", NO_DAY)
def test_days_of_something_else(markup):
    meta = read_metadata(read_html(markup), (), None, (URL,))
    assert (meta.published, meta.published_on) == (None, None)


def test_a_day_before_a_dash():
    for line in (
        "May 3, 2025 – 5 min read",
        "May 3, 2025 - 10:30",
        "3 May 2025 — Updated May 9, 2025",
    ):
        assert read_metadata(read_html(f"{H}<p>{line}"), (), None, (URL,)).published_on == (
            "2025-05-03"
        )


def test_who_comments_is_not_the_author():
    comments = "<ol class=commentlist><li><cite class=author>Con</cite></ol>"
    for markup in (comments, "<div><cite class=comment-author>Con</cite></div>"):
        assert read_metadata(read_html(H + markup), (), None, (URL,)).author is None


def test_the_day_of_an_address():
    dated = "https://site.example/2025/5/3/a-boat"
    meta = read_metadata(read_html(H), (), None, (dated,))
    assert (meta.published, meta.published_on) == ("2025-05-03", "2025-05-03")


def test_no_long_text_is_read_more_than_once():
    nested = "<title>x</title>" + "<div class=author>" * 190
    doc = read_html(nested + "admin " * (8 * 2**20 // 6))
    start = time.process_time()
    assert read_metadata(doc, (), None, (URL,)).author is None
    assert time.process_time() - start < 0.7  # 200 times: more than 2 s
