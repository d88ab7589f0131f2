"""Lines of other tools' lists as seeds; the lines are those of the tools' own documentation
(REQUIREMENTS A5).
"""

from __future__ import annotations

import pytest
from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import DEFAULT_POLICY
from crawlkit.rules.url.seed_lists import FORMS, authority, parse_rank

LINES = {
    # pywb manual, "CDXJ Format"
    "cdxj": [
        (
            'com,example)/ 20140103030321 {"url": "http://example.com", "mime": "text/html",'
            ' "status": "200", "digest": "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A", "length": "1043",'
            ' "offset": "333", "filename": "example.warc.gz"}'
        ),
        # the answer of Common Crawl's index server, with and without the key
        (
            'org,commoncrawl)/ 20180716144047 {"url": "https://commoncrawl.org/?b=2&a=1", "mime":'
            ' "text/html"}'
        ),
        '20180716144047 {"url": "https://commoncrawl.org/x"}',
        "!OpenWayback-CDXJ 1.0 {}",
        "",
    ],
    # tranco-list.eu: rank and domain, CR LF
    "tranco": ["1,google.com\r\n", "1000,Example.ORG\r\n", "10000000,x.co.uk"],
    # Heritrix 3 documentation, "Logs": crawl.log
    "heritrix": [
        (
            "2017-09-25T13:52:58.142Z   200       3190 http://www.example.com/ LE"
            " http://www.iana.org/ text/html #010 20170925135258010+120"
            " sha1:2WAXX5NUWNNCS2BDKCO5OVDQBJVNKIVV - -"
        ),
        (
            "2017-09-25T13:52:57.957Z     1         53 dns:www.example.com P"
            " http://www.example.com/ text/dns #042 20170925135257730+225 sha1:AB - -"
        ),
        (
            "2017-09-25T13:52:58.142Z    -9999          - http://www.example.com/path?q=1 L -"
            " unknown #010 - - - -"
        ),
    ],
    # Nutch wiki, "bin/nutch readdb -dump"
    "nutch": [
        "http://nutch.apache.org/\tVersion: 7",
        "Status: 2 (db_fetched)",
        "Fetch time: Mon Jun 12 10:00:00 UTC 2017",
        "Metadata: ",
        " \t_pst_=success(1), lastModified=0",
        "",
    ],
}
URLS = {
    "cdxj": [
        "http://example.com/",
        "https://commoncrawl.org/?a=1&b=2",
        "https://commoncrawl.org/x",
        None,
        None,
    ],
    "tranco": ["http://google.com/", "http://example.org/", "http://x.co.uk/"],
    "heritrix": ["http://www.example.com/", None, "http://www.example.com/path?q=1"],
    "nutch": ["http://nutch.apache.org/", None, None, None, None, None],
}


@pytest.mark.parametrize("form", LINES)
def test_lines_as_the_tools_write_them(form):
    seeds = [FORMS[form](line, 2, DEFAULT_POLICY) for line in LINES[form]]
    assert [None if s is None else s.url for s in seeds] == URLS[form]
    assert {s.priority_class for s in seeds if s} == {2}


@pytest.mark.parametrize(
    "form,line",
    [
        ("cdxj", "no json here"),
        ("cdxj", "com,example)/ notatime {}"),
        ("cdxj", 'com,example)/ 2014 {"mime": "x"}'),
        ("cdxj", 'com,example)/ 2014 {"url": 5}'),
        ("cdxj", 'a)/ 2014 {"url": "ftp://x/"}'),
        ("cdxj", "a)/ 2014 " + '{"url":' * 5000),
        ("tranco", "google.com"),
        ("tranco", "0,google.com"),
        ("tranco", "1,http://x/"),
        ("tranco", "10000001,x.com"),
        ("tranco", "1;google.com"),
        ("heritrix", "127.0.0.1 - - [x] GET /"),
        ("heritrix", "2017-09-25T13:52:58.142Z 200"),
        ("nutch", "ftp://x.example/\tVersion: 7"),
        ("cdxj", "x" * 70_000),
    ],
)
def test_other_lines_are_refused_with_a_reason(form, line):
    with pytest.raises(Refused):
        FORMS[form](line, 2, DEFAULT_POLICY)


def test_ranks():
    assert parse_rank("7,www.Example.co.uk\n") == (7, "example.co.uk") and parse_rank("") is None
    # 1 - log10(rank) / 7
    assert [round(authority(r), 4) for r in (1, 10, 1000, 10_000_000)] == [1.0, 0.8571, 0.5714, 0.0]
