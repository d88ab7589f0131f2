"""`crawlkit cat`: stored pages on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest
from crawlkit.cli.root import clean

from tests.cli.call import call
from tests.exports import sample
from tests.reading.conftest import TEXT, data  # noqa: F401 - a fixture

pytestmark = pytest.mark.waits


def cat(data, *words):
    return call("cat", *words, "--data", data)


def test_the_body_as_text(data):
    done = cat(data, "www.site.test")  # as a person writes it
    assert (done.code, done.out, done.err) == (0, sample.A + "\n", "")
    assert cat(data, "http://site.test/gz").out == TEXT
    assert cat(data, "http://site.test/latin").out == "café\n"


def test_what_is_read_from_it(data):
    assert cat(data, "http://www.site.test/", "--text").out == (
        "The harbour is open at high water.Moorings Other\n"
    )


def test_the_header(data):
    done = cat(data, "http://site.test/old", "--headers")
    assert done.out.splitlines()[:3] == ["HTTP/1.1 301", "Location: /b", "Content-Type: text/html"]
    assert done.err == "crawlkit: status 301, Location: /b\n"
    both = cat(data, "http://site.test/latin", "--headers", "--text").out
    assert both.endswith("\n\ncafé\n")


def test_an_older_capture(data):
    new, old = (
        json.loads(cat(data, "www.site.test/", "--json", *more).out)
        for more in ((), ("--round-id", "r000001"))
    )
    assert (new["round_id"], new["record_type"], old["round_id"]) == (
        "r000002",
        "revisit",
        "r000001",
    )
    assert new["text"] == old["text"] == sample.A
    assert cat(data, "www.site.test/", "--round-id", "r9").code == 1


def test_the_bytes_in_a_pipe(data):
    for url, *_, body in sample.PAGES[2:6]:
        done = subprocess.run(
            [sys.executable, "-m", "crawlkit", "cat", url, "--body", "--data", data],
            capture_output=True,
        )
        assert (done.returncode, done.stdout) == (0, body), url


@pytest.mark.parametrize("more", [[], ["--body"]])
def test_a_terminal_is_not_steered(data, more):
    here, terminal = pty.openpty()
    words = [sys.executable, "-m", "crawlkit", "cat", "site.test/esc", "--data", data, *more]
    done = subprocess.run(words, stdout=terminal, stderr=subprocess.PIPE)
    os.close(terminal)
    assert (done.returncode, os.read(here, 1000)) == (0, b"a\\x1b]0;owned\\x07b\r\n")
    os.close(here)


def test_control_characters_are_shown():
    assert clean("a\x1b]0;x\x07\tb\x9b2Jé\u202e") == ("a\\x1b]0;x\\x07\tb\\x9b2Jé\\u202e")


def test_what_cannot_be_printed(data):
    done = cat(data, "https://sub.site.co.uk:8443/C/")
    assert done.code == 2 and "application/pdf" in done.err and "--body > FILE" in done.err
    done = cat(data, "http://site.test/never")
    assert done.code == 1 and done.err.startswith("crawlkit: http://site.test/never: nothing is")
    assert cat(data, "mailto:a@b.example").code == 2
