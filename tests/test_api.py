"""The Python interface."""

from __future__ import annotations

import pytest
from crawlkit import api
from crawlkit.outcomes import Reason
from crawlkit.rules.duplicates.fingerprint import fingerprint

from tests.control.smallcrawl import fill, make_crawl
from tests.slot.slotweb import SlotWeb, page

pytestmark = pytest.mark.waits


def test_addresses_robots_and_pages():
    assert (
        api.canonicalize("../b?utm_source=x#f", "HTTP://A.example:80/x/y") == "http://a.example/b"
    )
    with pytest.raises(api.Refused) as refused:
        api.canonicalize("mailto:a@b.example")
    assert refused.value.reason is Reason.URL_SCHEME
    robots = b"User-agent: mybot\nDisallow: /a\nAllow: /a/b\n"
    assert [api.allow(robots, "mybot", f"http://x.example{p}") for p in ("/", "/a", "/a/b")] == [
        True,
        False,
        True,
    ]
    assert api.allow(robots, "otherbot", "http://x.example/a")
    for line, agent, allowed in (  # what has digits is no token: meant by its whole word alone
        ("bot2", "bot2", False),
        ("Bot2/1.0 (of a)", "bot2/3", False),
        ("bot2", "bot", False),  # RFC 9309 2.2.1: the token of the line is `bot`
        ("bot", "bot2", True),
        ("bot22", "bot2", True),
        ("360spider", "360Spider", False),
        ("a.bot", "a.bot", False),
    ):
        file = f"User-agent: {line}\nDisallow: /\n".encode()
        assert api.allow(file, agent, "http://x.example/a") is allowed, (line, agent)
    for rule, url in (
        ("/*utm_source", "/?utm_source=1"),
        ("/x?b=1&a=2", "/y/../x?b=1&a=2#f"),
        ("/x?$", "/x?"),
        ("/*&&", "/?a&&b"),
    ):  # as it is asked for: nothing removed or sorted
        assert not api.allow(
            f"User-agent: *\nDisallow: {rule}\n".encode(), "mybot", f"http://u:p@x.example{url}"
        ), url
    assert api.allow(b"User-agent: *\nDisallow: /x?\n", "mybot", "http://x.example/x")
    html = (
        b"<base href='/d/'><nav><a href='/menu'>menu</a></nav><main><p>"
        + b"These are the words that count on this page. " * 5
        + b"</p><a href='x'>x</a><a href=x>x</a><a href='javascript:1'>no</a></main>"
    )
    assert api.links(html, "http://x.example/") == ["http://x.example/menu", "http://x.example/d/x"]
    assert "words that count" in api.main_text(html, "http://x.example/")
    assert api.parse_one(html, "http://x.example/", content_type="text/html")["kind"] == "html"


def test_near_duplicates():
    text = " ".join(f"word{n} of the text" for n in range(60))
    texts = {
        "a": text,
        "b": text,
        "c": text.replace("word7 ", "another "),
        "d": "something else entirely that nobody has written before or since",
        "e": "",
    }
    assert api.near_duplicates(texts) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert api.near_duplicates({}) == []


def test_signatures_are_datasketchs():
    """A program puts them into datasketch's own index, computed or as the table has them."""
    words = [f"word{n}" for n in range(300)]
    texts = {"a": " ".join(words), "b": " ".join([*words[:-9], "other"]), "c": "x y z " * 5}
    made = {name: api.minhash(text) for name, text in texts.items()}
    index = api.lsh(0.8)
    for name, signature in made.items():
        index.insert(name, signature)
    assert set(index.query(made["a"])) == {"a", "b"} and index.query(made["c"]) == ["c"]
    assert made["a"].jaccard(made["b"]) > 0.85 and made["a"].jaccard(made["c"]) == 0
    stored = fingerprint(texts["a"]).minhash
    assert api.minhash(stored).jaccard(made["a"]) == 1 and api.minhash("two words") is None
    with pytest.raises(ValueError, match="512 bytes"):
        api.minhash(stored[1:])


def test_a_crawl(tmp_path):
    crawl = make_crawl(tmp_path)
    fill(crawl)
    assert api.is_seen("HTTP://a.test", tmp_path)
    assert not api.is_seen("http://a.test/new", tmp_path)
    told = api.add_urls(["http://a.test/", "http://a.test/new"], tmp_path)
    assert (told["added"], told["duplicates"]) == (1, 1)
    assert api.is_seen("http://a.test/new", tmp_path)
    assert api.stats(tmp_path)["known_urls"] == 3


def test_one_fetch():
    with SlotWeb({"a.test": {"/": page("hello")}}) as web:
        assert api.fetch_one("http://a.test/", web.config()).payload == b"hello"
