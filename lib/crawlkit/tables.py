"""Every table: its columns with types and meaning, key, partition, writer and readers.

The one place where schemas stand. `docs/tables.md` is generated from it (`python -m
crawlkit.tables`); a column's comment is stored in the Delta table too. `url_key` is the first 16
bytes of SHA-256 of the canonical URL; times are UTC.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Column(NamedTuple):
    name: str
    type: str  # Spark SQL DDL
    comment: str


FILES_DDL = (  # what a task tells of each data file that it wrote
    "path string, bytes bigint, modified_ms bigint, partition string, stats string"
)


class Table(NamedTuple):
    name: str
    role: str
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    written_by: str
    read_by: str
    columns: tuple[Column, ...]

    @property
    def stats(self) -> list[str]:
        """Columns whose least and greatest value each data file keeps; few, since planning over 30
        of them costs seconds a write.
        """
        first = (
            "host_bucket",
            "updated_no",
            "next_fetch",
            "round_no",
            "capture_id",
            "text_sha256",
            "host",
            "url",
        )  # by what readers ask for
        kept = [
            name for name in first if name in self.column_names and name not in self.partition_by
        ][:4]
        return (
            kept
            or [
                c.name
                for c in self.columns
                if c.name not in self.partition_by and c.type not in ("binary", "boolean")
            ][:1]
        )

    @property
    def column_names(self) -> list[str]:
        return [c.name for c in self.columns]


def _cols(text: str) -> tuple[Column, ...]:
    """Columns from lines of `name type | comment`."""
    out = []
    for line in filter(None, text.splitlines()):
        head, comment = line.split("|", 1)
        name, type_ = head.split(None, 1)
        out.append(Column(name, type_.strip(), comment.strip()))
    return tuple(out)


_ROW = """
url_key binary | first 16 bytes of SHA-256 of the canonical URL
url string | canonical URL
host string | host name, lower case, without the port
domain string | registered domain: the unit of sharding
host_bucket int | hash of the domain mod frontier.buckets
state string | queued, fetched, redirected, retrying, robots_skipped, refused or dead
priority_class int | 0 critical, 1 high, 2 normal, 3 low
boost double | points added to the score by seeds, hints and operators
depth int | links from a seed
redirects int | hops of the redirect chain that led here
parent_key binary | url_key of the page on which it was first found
source string | seed, link, redirect, canonical, sitemap, feed, import, hint or operator
fetch_kind string | page, sitemap or feed: how its answer is read
first_seen timestamp | when it was first found
last_fetch timestamp | start of the last request that got an answer
next_fetch timestamp | when it is due; null: never
interval_s double | current recrawl interval, s
last_status int | HTTP status of the last answer
error_type string | reason of the last failure; null after a success
error_detail string | its detail
retries int | failures in a row
n_fetch bigint | fetches that got an answer
n_change bigint | fetches that found a change
history string | last outcomes, newest last: C changed, U unchanged, N new, E error, ? no evidence
body_sha256 string | SHA-256 of the decoded body, hex
text_sha256 string | SHA-256 of the normalised text, hex
payload_digest string | sha1:BASE32 of the stored payload
simhash bigint | 64-bit SimHash of the text
etag string | ETag of the stored copy
last_modified string | Last-Modified of the stored copy
content_type string | media type of the stored copy
content_length bigint | stored payload, bytes
capture_id string | capture of the stored copy
fetched_at timestamp | WARC-Date of the stored copy
copy_url string | URL of the stored copy where it is another's, to which revisit records refer
outlinks int | links found on the stored copy
flags array<string> | duplicate_of, redirect_too_long, noindex, soft404 ...
"""

TABLES: dict[str, Table] = {}


def _table(
    name: str, role: str, key: str, partition_by: str, written_by: str, read_by: str, text: str
) -> None:
    TABLES[name] = Table(
        name,
        role,
        tuple(key.split()),
        tuple(partition_by.split()),
        written_by,
        read_by,
        _cols(text),
    )


_table(
    "crawldb",
    "The CrawlDb: one row for each known URL, as of the last fold.",
    "url_key",
    "host_bucket",
    "update (fold)",
    "generate, SQL",
    _ROW
    + """
updated_no int | number of the round that wrote the state
""",
)

_FOUND = (
    _ROW
    + """
updated_no int | number of the round that wrote the row
round_id string | round that wrote the row
writer string | stage that wrote the row
kind string | found (a URL was seen) or state (a planned URL's new state)
seq bigint | order inside the round and writer
due_at timestamp | found rows: makes the URL due at this time if that is after its last fetch
force boolean | found rows: due even if dead or refused (operator)
mode string | found rows: keep, update or overwrite what is known (re-injection)
"""
)

_table(
    "crawldb_log",
    "What happened to URLs since they were folded: appended found rows and state rows.",
    "round_id writer url_key kind seq",
    "round_id writer",
    "inject, parse, update",
    "generate, update (fold)",
    _FOUND,
)

_table(
    "injected",
    "Found rows of seeds and commands that were folded and left the log: what no capture and no"
    " link tells.",
    "round_id writer url_key seq",
    "round_id writer",
    "maintain, rebuild",
    "rebuild",
    _FOUND,
)

_table(
    "hostdb",
    "The HostDb: one row for each host.",
    "host",
    "host_bucket",
    "update",
    "generate, SQL",
    """
host string | host name
domain string | registered domain
host_bucket int | bucket of the domain
class string | news, generic or dormant
region string | region that fetches its domain (fetch.regions); empty: there are none
delay_ms bigint | delay in force after the last answer
robots_delay_ms bigint | Crawl-delay of robots.txt
next_allowed_at timestamp | no request before this (delay, Retry-After, breaker; quotas stand below)
last_request_at timestamp | end of the last answer
retry_after_until timestamp | Retry-After asked to wait until this
breaker string | closed, open or half_open
slow_until timestamp | in the slow lane until this
health double | 1 minus the error share of the last day
failures int | failures in a row
errors_24h int | server errors of the last day
avg_ms double | mean answer time
quota_used bigint | pages fetched on quota_day
quota_day string | UTC day of the quota, days since 1970
cycle_used bigint | pages fetched in the cycle (politeness.cycle_days) that began on cycle_day
cycle_day int | first UTC day of the cycle, days since 1970
pages bigint | pages ever fetched
requests bigint | requests ever sent
last_ips array<string> | addresses connected to, newest first
blacklisted boolean | never fetched
reason string | why blacklisted or blocked
first_seen timestamp | first round that planned it
flags array<string> | blocked ...
state_json string | the whole politeness state, handed to the next slot
updated_no int | round that wrote the row
""",
)

_table(
    "robots",
    "Every version of every robots.txt that was fetched.",
    "origin fetched_at",
    "round_id",
    "commit",
    "generate, SQL",
    """
origin string | scheme://host[:port]
host string | host name
fetched_at timestamp | start of the first request
status int | final status; null: unreachable
error string | reason when unreachable
final_url string | URL after redirects
body binary | first robots.max_bytes bytes
expires timestamp | used until this
capture_id string | capture of the answer
sitemaps array<string> | canonical URLs of its Sitemap lines
round_id string | round
""",
)

_table(
    "buckets",
    "What is due in each host bucket.",
    "host_bucket",
    "",
    "update",
    "generate",
    """
host_bucket int | bucket
rows bigint | known URLs
next_due_0 timestamp | earliest due time in priority class 0
next_due_1 timestamp | earliest due time in class 1
next_due_2 timestamp | earliest due time in class 2
next_due_3 timestamp | earliest due time in class 3
log_rows bigint | rows of the log not folded yet
folded_through int | log rows of rounds up to this number are in crawldb
""",
)

_table(
    "fetchlist",
    "crawl_generate: what a round plans to fetch; each row carries its crawldb row whole.",
    "round_id kind url_key",
    "round_id",
    "generate",
    "fetch, commit, update",
    _ROW
    + """
updated_no int | number of the round that wrote the state
round_id string | round
slot int | fetch task
region string | region that fetches it; empty: there are none
rank bigint | order inside the slot
kind string | page, robots, sitemap, feed, render or probe
origin string | scheme://host[:port]
score double | priority score
explore boolean | chosen to explore, not by score
not_before timestamp | no request before this
robots_status int | robots rows: status of the stored copy
robots_body binary | robots rows: the stored copy
robots_fetched_at timestamp | robots rows: its time
robots_expires timestamp | robots rows: used until this
host_state string | robots rows: politeness state of the host (JSON)
""",
)

_table(
    "captures",
    "crawl_fetch: one row for each outcome and for each stored response or revisit record.",
    "capture_id",
    "round_id",
    "commit",
    "parse, update, audit, SQL",
    """
capture_id string | round-slot-attempt-number
round_id string | round
url_key binary | key of the requested URL
url string | requested URL
kind string | page, robots, sitemap, feed, render or probe
host string | host
slot int | fetch task
attempt int | attempt of the task; -1: no attempt came to it
seq bigint | order inside the attempt
outcome string | see outcomes.py
reason string | why not fetched
detail string | detail of the reason
status int | HTTP status
started timestamp | start of the request
ended timestamp | end of the answer
ip string | address connected to
content_type string | Content-Type as sent; several lines are a list
body_bytes bigint | stored payload, bytes
truncated string | length, time or disconnect
redirect_to string | canonical target of a redirect
payload_digest string | sha1:BASE32 of the stored payload
warc_filename string | file below the WARC folder
warc_record_offset bigint | offset of the gzip member
warc_record_length bigint | its length
warc_record_id string | WARC-Record-ID
record_type string | response or revisit
revisit_of string | capture_id of the first copy
etag string | ETag
last_modified string | Last-Modified
cache_control string | Cache-Control
delay_ms bigint | gap in force before the request
robots_line string | the rule that decided
is_outcome boolean | false: a stored record beside the outcome (robots hop, second attempt)
planned_depth int | links from a seed, when it was planned
planned_redirects int | hops of the redirect chain, when it was planned
planned_class int | priority class, when it was planned
""",
)

_table(
    "pages",
    "What was read from a stored page.",
    "capture_id",
    "round_id",
    "parse",
    "dedup, update, rank, SQL",
    """
capture_id string | capture of the page
round_id string | round
url_key binary | key of the URL
url string | URL
host string | host
parser_version string | version of the parser
kind string | html, text, json, xml, pdf, docx, sitemap, feed or other
media_type string | media type as sent
charset string | encoding (WHATWG name)
title string | title
description string | meta description
keywords string | meta keywords
author string | author
published string | date of publication as written
declared_language string | language that the page declares
language string | language of the text, detected
robots_meta array<string> | directives in force for us
noindex boolean | text not kept
nofollow boolean | links not followed
canonical string | rel=canonical, canonical form
signals string | machine-readable opt-out signals (JSON)
metadata string | Open Graph, JSON-LD and other structured data (JSON)
text string | visible text; null with noindex
main_text string | text without boilerplate; null with noindex
text_bytes bigint | length of the visible text
decoded_bytes bigint | length of the decoded body
body_sha256 string | SHA-256 of the decoded body
clean_sha256 string | SHA-256 of structure, text and links (HTML)
text_sha256 string | SHA-256 of the normalised text; null without text
simhash bigint | 64-bit SimHash; null without text
minhash binary | 128 MinHash values, 32-bit little-endian; null without text
links int | links found
flags array<string> | truncated, cross_site_canonical, many_same_shape ...
""",
)

_table(
    "links",
    "The LinkDb: one row for each link of a stored page.",
    "capture_id n",
    "round_id",
    "parse",
    "rank, SQL",
    """
capture_id string | capture of the page
round_id string | round
n int | order on the page
from_key binary | key of the page
from_url string | the page
to_key binary | key of the target; null when refused
to_url string | target, canonical; as written when refused
to_host string | host of the target
anchor string | anchor text
rel string | rel
kind string | a, area, canonical, redirect, image ...
refused string | reason why it does not enter the frontier
""",
)

_table(
    "contents",
    "The text of each URL, by round; the newest row of a URL counts.",
    "round_id url_key",
    "round_id",
    "dedup",
    "dedup",
    """
round_id string | round
round_no int | its number
url_key binary | URL
url string | URL
capture_id string | capture
text_sha256 string | SHA-256 of the normalised text; null without text
""",
)

_table(
    "sim_bands",
    "Keys under which nearly equal texts meet: one set for each distinct text.",
    "text_sha256 scheme band",
    "round_id",
    "dedup",
    "dedup",
    """
round_id string | round that brought the text
scheme string | simhash (four 16-bit blocks) or minhash (LSH bands)
band int | block or band
hash bigint | its value
text_sha256 string | the text
capture_id string | a capture that has it
simhash bigint | 64-bit SimHash of the text
""",
)

_table(
    "similar",
    "Pairs of distinct texts that were compared and found alike.",
    "a_text b_text",
    "round_id",
    "dedup",
    "dedup, SQL",
    """
round_id string | round
a_text string | text_sha256 of the text that was known first (of one round: the smaller)
b_text string | text_sha256 of the other
a_capture string | capture compared
b_capture string | capture compared
method string | minhash or simhash: what merges them; similar: kept as evidence only
distance int | SimHash distance
jaccard double | verified Jaccard of 3-word shingles
merged boolean | near-duplicates (true) or only similar
""",
)

_table(
    "duplicates",
    "Clusters of pages with equal or nearly equal text: one row for each member.",
    "url_key",
    "",
    "dedup",
    "update, SQL",
    """
url_key binary | member
url string | member
capture_id string | its capture
cluster_id binary | url_key of the canonical page
canonical_url string | the page that stands for the cluster
method string | exact, minhash or simhash; canonical for the page itself
evidence_url string | the page it was compared with, if there is one with the text that it has now, else one that had the text then
distance int | SimHash distance to it
jaccard double | Jaccard with it
size int | members of the cluster
""",
)

_table(
    "ranks",
    "In-links of each page.",
    "url_key",
    "",
    "rank",
    "generate, dedup",
    """
url_key binary | page
inlinks bigint | pages that link to it
inlink_hosts bigint | hosts that link to it
round_no int | computed after this round
""",
)

_table(
    "host_ranks",
    "Quality of each host, from counts.",
    "host",
    "",
    "rank",
    "generate",
    """
host string | host
inlink_hosts bigint | other hosts that link to it
pages bigint | stored pages
error_share double | failed share of its fetches
duplicate_share double | share of its pages that are aliases of others
quality double | 0 to 1
round_no int | computed after this round
""",
)

_table(
    "domain_authority",
    "Ranked lists of domains, as imported (`crawlkit import ranks`).",
    "list domain",
    "list",
    "import",
    "rank, SQL",
    """
list string | name of the list
domain string | registered domain
rank bigint | its place in the list, from 1
authority double | 1 for the first, falling by the logarithm of the rank to 0 for the ten-millionth
""",
)

_table(
    "param_rules",
    "Query parameters that a host's pages say do not matter: proposals to be looked at; a rule is"
    " in force once it stands in urls.host_params.",
    "host name",
    "",
    "rank",
    "`crawlkit params`, SQL",
    """
host string | host
name string | parameter, lower case
canonical_for bigint | addresses whose canonical link is without it
canonical_against bigint | addresses whose canonical link keeps it
text_for bigint | texts that stay equal whatever its value
text_against bigint | addresses whose text changes with it
examples array<string> | URLs that carry it
pages bigint | pages of the host that were looked at
round_no int | computed after this round
""",
)

_table(
    "rejects",
    "What was refused on the way in, and why.",
    "round_id stage n",
    "round_id stage",
    "inject, parse",
    "SQL",
    """
round_id string | round
stage string | stage
n bigint | order
item string | URL or line as given
reason string | reason from the closed list
detail string | detail
capture_id string | page on which it was found
""",
)

_table(
    "rounds",
    "One row for each closed round.",
    "round_id",
    "round_id",
    "report",
    "SQL",
    """
round_id string | round
round_no int | number
state string | closed or abandoned
nominal_time timestamp | --now of the round
opened_at timestamp | real time
closed_at timestamp | real time
config_digest string | SHA-256 of the configuration, 16 hex digits
seed bigint | seed of what is random
buckets int | host buckets claimed
planned bigint | rows of the fetch list
""",
)

_table(
    "stages",
    "One row for each stage of a round.",
    "round_id stage",
    "round_id",
    "report",
    "SQL",
    """
round_id string | round
stage string | stage
started timestamp | real time
ended timestamp | real time
wall_s double | wall time, s
cpu_s double | CPU time of the driver's process tree, s
rows_in bigint | rows read
rows_out bigint | rows written
rejected bigint | rows refused, by reasons in counts
counts string | all counts (JSON)
""",
)

_table(
    "metrics",
    "Figures of a round.",
    "round_id name labels",
    "round_id",
    "report",
    "SQL",
    """
round_id string | round
name string | metric
labels string | labels (JSON)
value double | value
""",
)

_table(
    "commands",
    "Operator actions, in the order in which they were given; appended under a lock of their own,"
    " so that an operator never waits for a stage.",
    "command_id",
    "",
    "control",
    "generate (what it brings into the frontier), report, SQL",
    """
command_id string | id; the same id is done once
at timestamp | time
verb string | seeds, recrawl, hint, boost, block, unblock, host_set, complain, pause, resume, abandon or purge
target string | URL, host, domain or round; of several URLs the first
arguments string | JSON; of a purge also what it removed
actor string | who
""",
)


def to_markdown() -> str:
    """docs/tables.md."""
    out = [
        "# Tables",
        "",
        (
            "Generated from `lib/crawlkit/tables.py` by `python -m crawlkit.tables`. All are Delta"
            " tables below `tables/`."
        ),
        "",
    ]
    for t in TABLES.values():
        out += [
            f"## {t.name}",
            "",
            t.role,
            "",
            (
                f"Key: `{', '.join(t.key)}`. Partitioned by:"
                f" {', '.join(t.partition_by) or 'nothing'}. Written by {t.written_by}; read by"
                f" {t.read_by}."
            ),
            "",
            "| column | type | meaning |",
            "|---|---|---|",
        ]
        out += [f"| {c.name} | {c.type} | {c.comment} |" for c in t.columns] + [""]
    return "\n".join(out)


if __name__ == "__main__":
    print(to_markdown(), end="")
