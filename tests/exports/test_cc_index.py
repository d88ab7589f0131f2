"""`cc_index`: Common Crawl's columns and types, and standard queries on it with rows counted by
hand from sample.PAGES, in DuckDB.
"""

from __future__ import annotations

import pytest
from crawlkit.config import Config
from crawlkit.exports.cc_index import SCHEMA, export_cc_index
from crawlkit.exports.source import Source
from crawlkit.rules.warc.cc_index_rows import cc_row
from deltalake import DeltaTable

pytestmark = pytest.mark.waits

# cc-index-table, src/main/resources/schema/cc-index-schema-flat.json
PUBLISHED = """url_surtkey:string url:string url_host_name:string url_host_tld:string \
url_host_2nd_last_part:string url_host_3rd_last_part:string url_host_4th_last_part:string \
url_host_5th_last_part:string
url_host_registry_suffix:string url_host_registered_domain:string url_host_private_suffix:string \
url_host_private_domain:string url_host_name_reversed:string url_protocol:string url_port:int32 \
url_path:string url_query:string
fetch_time:timestamp[us, tz=UTC] fetch_status:int16 fetch_redirect:string content_digest:string \
content_mime_type:string content_mime_detected:string content_charset:string \
content_languages:string content_truncated:string
warc_record_id:binary warc_filename:string warc_record_offset:int32 warc_record_length:int32 \
warc_segment:string crawl:string subset:string"""

QUERIES = {
    "pages, hosts and domains per top level domain": (
        (
            "SELECT COUNT(*) AS n_pages, url_host_tld AS tld, COUNT(DISTINCT url_host_name) AS"
            " n_hosts, COUNT(DISTINCT url_host_registered_domain) AS n_domains FROM ccindex WHERE"
            " crawl = 'crawl' AND subset = 'warc' GROUP BY url_host_tld ORDER BY n_pages DESC, tld"
        ),
        [(2, "test", 1, 1), (1, "uk", 1, 1), (1, None, 1, 0)],
    ),
    "fetch status by subset": (
        (
            "SELECT subset, fetch_status, COUNT(*) FROM ccindex GROUP BY subset, fetch_status ORDER"
            " BY 1, 2"
        ),
        [
            ("crawldiagnostics", 200, 1),
            ("crawldiagnostics", 301, 1),
            ("crawldiagnostics", 304, 1),
            ("crawldiagnostics", 404, 1),
            ("robotstxt", 200, 1),
            ("warc", 200, 4),
        ],
    ),
    "records of a mime type": (
        (
            "SELECT url, content_mime_type, warc_segment FROM ccindex WHERE subset = 'warc' AND"
            " (content_mime_detected = 'application/pdf' OR content_mime_type LIKE '%pdf%')"
        ),
        [("https://sub.site.co.uk:8443/C/", "application/pdf", "r000001")],
    ),
    "records of a domain": (
        (
            "SELECT DISTINCT url_path, url_query FROM ccindex WHERE url_host_registered_domain ="
            " 'site.test' AND url_host_name LIKE 'www.%' ORDER BY 1"
        ),
        [("/", None), ("/b", "z=1&a=2")],
    ),
    "robots.txt": (
        "SELECT url_path, COUNT(*) FROM ccindex WHERE subset = 'robotstxt' GROUP BY 1",
        [("/robots.txt", 1)],
    ),
    "redirects": (
        "SELECT url, fetch_redirect FROM ccindex WHERE fetch_redirect IS NOT NULL",
        [("http://site.test/old", "http://site.test/b")],
    ),
    "home pages by language": (
        (
            "SELECT url_host_name, content_languages, content_charset FROM ccindex WHERE subset ="
            " 'warc' AND url_path = '/' AND url_query IS NULL ORDER BY 1"
        ),
        [("www.site.test", "eng", "UTF-8")],
    ),
    "ports and suffixes": (
        (
            "SELECT url_protocol, url_port, url_host_registry_suffix, url_host_registered_domain,"
            " url_host_name_reversed, url_surtkey FROM ccindex WHERE url_port IS NOT NULL"
        ),
        [("https", 8443, "co.uk", "site.co.uk", "uk.co.site.sub", "uk,co,site,sub:8443)/c")],
    ),
    "declared and detected types": (
        (
            "SELECT content_mime_type, content_mime_detected, COUNT(*) FROM ccindex WHERE subset ="
            " 'warc' GROUP BY 1, 2 ORDER BY 3 DESC, 1"
        ),
        [("text/html", "text/html", 2), ("application/pdf", None, 1), (None, None, 1)],
    ),
    "host parts": (
        (
            "SELECT url_host_tld, url_host_2nd_last_part, url_host_3rd_last_part,"
            " url_host_4th_last_part, url_host_5th_last_part FROM ccindex WHERE url_port = 8443"
        ),
        [("uk", "co", "site", "sub", None)],
    ),
    "a crawl's time span": (
        (
            "SELECT strftime(MIN(fetch_time), '%Y%m%d%H%M%S'), COUNT(DISTINCT content_digest) FROM"
            " ccindex WHERE crawl = 'crawl'"
        ),
        [("20240402120000", 7)],
    ),
}


@pytest.fixture(scope="module")
def index(data, tmp_path_factory):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: no other engine to ask")
    place = str(tmp_path_factory.mktemp("cc") / "cc_index")
    source = Source(data, Config())
    for _ in range(2):  # the second replaces the first
        assert export_cc_index(source, place)["rows"] == 9
    other = Source(data, Config.model_validate({"crawl": {"id": "other"}}))
    assert export_cc_index(other, place)["rows"] == 9
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("all_crawls", DeltaTable(place).to_pyarrow_dataset())
    connection.execute("CREATE VIEW ccindex AS SELECT * FROM all_crawls WHERE crawl = 'crawl'")
    return place, connection


def test_columns_and_types_are_the_published_ones(index):
    published = [
        tuple(c.replace("timestamp[us,\x00tz=UTC]", "timestamp[us, tz=UTC]").split(":", 1))
        for c in PUBLISHED.replace("us, tz", "us,\x00tz").split()
    ]
    assert [(f.name, str(f.type)) for f in SCHEMA] == published
    table = DeltaTable(index[0])
    assert table.metadata().partition_columns == ["crawl", "subset"]
    assert [f.name for f in table.schema().fields] == SCHEMA.names


@pytest.mark.parametrize("name", QUERIES)
def test_query(index, name):
    sql, want = QUERIES[name]
    assert index[1].execute(sql).fetchall() == want


def test_two_crawls_in_one_table(index):
    assert index[1].execute(
        "SELECT crawl, COUNT(*) FROM all_crawls GROUP BY 1 ORDER BY 1"
    ).fetchall() == [("crawl", 9), ("other", 9)]


def test_a_record_is_found_by_its_row(index, data):
    from warcio.archiveiterator import ArchiveIterator

    for url, name, offset, record_id in (
        index[1]
        .execute("SELECT url, warc_filename, warc_record_offset, warc_record_id FROM ccindex")
        .fetchall()
    ):
        with open(data / "warc" / name, "rb") as f:
            f.seek(offset)
            record = next(iter(ArchiveIterator(f)))
            assert record.rec_headers["WARC-Target-URI"] == url
            assert (
                record.rec_headers["WARC-Record-ID"]
                .replace("-", "")
                .endswith(record_id.hex() + ">")
            )


@pytest.mark.parametrize(
    "url,want",
    [
        ("http://user.github.io/", ("io", "github.io", "github.io", "user.github.io")),
        ("http://localhost/", ("localhost", None, "localhost", None)),
        ("http://[::1]/", (None, None, None, None)),
    ],
)
def test_suffixes(url, want):
    capture = dict.fromkeys(
        (
            "status",
            "started",
            "truncated",
            "redirect_to",
            "payload_digest",
            "content_type",
            "warc_filename",
            "warc_record_offset",
            "warc_record_length",
            "warc_record_id",
            "record_type",
            "round_id",
        )
    ) | {"url": url, "kind": "page", "outcome": "fetched"}
    row = cc_row(capture, None, "c")
    assert (
        row["url_host_registry_suffix"],
        row["url_host_registered_domain"],
        row["url_host_private_suffix"],
        row["url_host_private_domain"],
    ) == want
