"""The feed files of feedparser's source package (BSD-2), beside feedparser's own reading of them.

Give their folder: FEEDPARSER_TESTS=.../feedparser-6.0.14/tests; the package feedparser must be
installed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from crawlkit.outcomes import Refused
from crawlkit.rules.feeds.sitemaps import parse
from crawlkit.rules.url.canonical import canonicalize

URL = "http://site.example/feeds/feed.xml"
# Ours to answer otherwise, by kind: docs/rules/sitemaps.md
OTHERWISE = {
    "illformed/rdf_channel_empty_textinput.xml",
    "wellformed/rdf/rdf_item_description.xml",
    "wellformed/rdf/rdf_item_rdf_about.xml",
    "wellformed/rdf/rdf_item_title.xml",
    "wellformed/atom10/entry_id_with_attributes.xml",
    "wellformed/base/http_entry_id_base_content_location.xml",
    "wellformed/base/http_entry_id_base_docuri.xml",
    "wellformed/lang/http_content_language_entry_title_inherit_2.xml",
    "wellformed/node_precedence/atom10_id.xml",
    "wellformed/base/cdf_item_abstract_xml_base.xml",
}


def canonical(links: list[str]) -> set[str]:
    out = set()
    for link in links:
        try:
            out.add(canonicalize(link, URL))
        except Refused:
            continue
    return out


def test_item_links():
    folder = os.environ.get("FEEDPARSER_TESTS")
    if not folder:
        pytest.skip("FEEDPARSER_TESTS is not set: the tests folder of feedparser's source package")
    feedparser = pytest.importorskip("feedparser")
    files = [
        file for file in sorted(Path(folder).rglob("*")) if file.suffix in (".xml", ".gz", ".z")
    ]
    otherwise = set()
    for file in files:
        found = parse(file.read_bytes(), URL)
        theirs = feedparser.parse(
            file.read_bytes(),
            response_headers={"content-location": URL, "content-type": "application/xml"},
        )
        want = canonical([entry["link"] for entry in theirs.entries if entry.get("link")])
        if {entry.url for entry in found.entries} | set(found.refused) != want:
            otherwise.add(file.relative_to(folder).as_posix())
    assert len(files) > 2000 and otherwise == OTHERWISE
    assert len(otherwise) <= len(files) / 200
