"""rules.seeds: which lines are addresses, and what a file that is no UTF-8 text with LF gives."""

from __future__ import annotations

import pytest
from crawlkit.cli.settings import read_seeds
from crawlkit.outcomes import Refused
from crawlkit.rules.url.seeds import parse_seed


@pytest.mark.parametrize(
    "line, url",
    [
        ("site.example", "http://site.example/"),
        ("SITE.example:8080/a?b#c", "http://site.example:8080/a?b"),
        ("site.example?x=1", "http://site.example/?x=1"),
        ("b\u00fccher.example/a@b", "http://xn--bcher-kva.example/a@b"),
        ("192.0.2.1:81", "http://192.0.2.1:81/"),
        ("\t http://site.example/a \t\r\n", "http://site.example/a"),
        ("http://site.example/?u=mailto:a@b.example", "http://site.example/?u=mailto:a@b.example"),
    ],
)
def test_addresses(line, url):
    assert parse_seed(line).url == url


@pytest.mark.parametrize(
    "line",
    [
        "mailto:a@b.example",
        "a@b.example",
        "user:pw@site.example/x",
        "tel:+1.555",
        "javascript:a.b",
        "data:text/plain,a.b",
        "localhost/a",
        "a b.example",
        "/a.b",
        "//site.example/",
        "?a.b",
        "[::1]/a.b",
        "ftp://site.example/",
    ],
)
def test_no_addresses(line):
    with pytest.raises(Refused):
        parse_seed(line)


@pytest.mark.parametrize("line", ["", " \t ", "\ufeff", "\t# note", "# http://site.example/"])
def test_nothing(line):
    assert parse_seed(line) is None


@pytest.mark.parametrize(
    "body, lines",
    [
        (b"http://a.example/\rhttp://b.example/\r", ["http://a.example/", "http://b.example/"]),
        (
            b"http://a.example/\r\n\r\nhttp://b.example/",
            ["http://a.example/", "", "http://b.example/"],
        ),
        (
            b"http://a.example/caf\xe9\tpriority=high\n",
            ["http://a.example/caf%E9\tpriority=high"],
        ),  # Latin-1: the byte that the server knows
        ("http://a.example/caf\u00e9\n".encode(), ["http://a.example/caf\u00e9"]),
        (b"", []),
    ],
)
def test_lines_of_a_file(tmp_path, body, lines):
    path = tmp_path / "seeds.txt"
    path.write_bytes(body)
    assert list(read_seeds(str(path))) == lines
