"""What is known of URLs and hosts, and what a round plans."""

from __future__ import annotations

from crawlkit.tables.schema import make_table

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
redirects int | hops of the redirect chain (or of style sheets) that led here
parent_key binary | url_key of the page on which it was first found
source string | seed, link, redirect, canonical, requisite, sitemap, feed, import, hint, websub ...
fetch_kind string | page, sitemap, feed or requisite (of pages): how its answer is read
metadata string | what was given with it as a seed: source, time and other keys (JSON); else null
first_seen timestamp | when it was first found
last_fetch timestamp | nominal time of the last round in which a request got an answer
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
text_sha256 string | SHA-256 of the normalised text, of a sitemap or feed its addresses, hex
payload_digest string | sha1:BASE32 of the stored payload
simhash bigint | 64-bit SimHash of the text
etag string | ETag of the stored copy
last_modified string | Last-Modified of the stored copy
content_type string | media type of the stored copy
content_length bigint | stored payload, bytes
capture_id string | capture of the stored copy
fetched_at timestamp | WARC-Date of the stored copy
copy_url string | URL of the stored copy where it is not url, to which revisit records refer
outlinks int | links found on the stored copy
flags array<string> | duplicate_of, redirect_too_long, given_back, forced, hinted, noindex ...
fresh_until timestamp | until when the last answer says that it stays true (Cache-Control)
sent_url string | how it is requested, where not as url: as found, or as the server last spelled it
"""

_FOUND = (
    _ROW
    + """
updated_no int | number of the round that wrote the row
round_id string | round that wrote the row
writer string | stage that wrote the row
kind string | found (a URL was seen), state (a planned URL's new state) or flags (from dedup)
seq bigint | order inside the round and writer
due_at timestamp | found rows: makes the URL due at this time if that is after its last fetch
force boolean | found rows: due even if dead or refused (operator)
mode string | found rows: keep, update or overwrite what is known (re-injection)
"""
)

TABLES = (
    make_table(
        "crawldb",
        "The CrawlDb: one row for each known URL, as of the last fold.",
        "url_key",
        "host_bucket",
        _ROW
        + """
updated_no int | number of the round that wrote the state
""",
        also="Rewritten by rebuild and rebucket.",
    ),
    make_table(
        "crawldb_log",
        "What happened to URLs since they were folded: appended found rows and state rows.",
        "round_id writer url_key kind seq",
        "round_id writer",
        _FOUND,
    ),
    make_table(
        "injected",
        "Found rows of seeds and commands that were folded and left the log: what no capture and no"
        " link tells.",
        "round_id writer url_key seq",
        "round_id writer",
        _FOUND,
        also="Written by maintain and rebuild, read by rebuild.",
    ),
    make_table(
        "hostdb",
        "The HostDb: one row for each host.",
        "host",
        "host_bucket",
        """
host string | host name
domain string | registered domain
host_bucket int | bucket of the domain
class string | news, generic or dormant: configured, else learned
region string | region that fetches its domain (fetch.regions); empty: there are none
delay_ms bigint | delay in force after the last answer
robots_delay_ms bigint | Crawl-delay of robots.txt
next_allowed_at timestamp | no request before this (delay, Retry-After, breaker; quotas are below)
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
quota_max bigint | pages a day that are let through
cycle_used bigint | pages fetched in the cycle (politeness.cycle_days) that began on cycle_day
cycle_day int | first UTC day of the cycle, days since 1970
pages bigint | pages ever fetched
requests bigint | requests ever sent
dates_true double | visits for a date of a sitemap or feed that found a change; halved in 30 days
dates_false double | visits for such a date that found none; halved in 30 days
dates_at timestamp | as of when
hints_true double | visits for a ping or push that found a change; halved in 30 days
hints_false double | visits for one that found none; halved in 30 days
hints_at timestamp | as of when
fresh_true double | visits within that time that found no change; halved in 30 days
fresh_false double | visits within that time that found one; halved in 30 days
fresh_at timestamp | as of when
news_pages double | pages that were new when first fetched; halved in 7 days
news_at timestamp | as of when
changed_at timestamp | last round in which a visit found a change or a new page
still_visits bigint | visits since then that found a page unchanged
quality double | as of the last rank before: 0 to 1
needs_js boolean | a page of it needed a browser
renders bigint | pages rendered, less those of folders that are to be tried again
render_gains bigint | renders that gained text or links
render_folders string | renders, gains and day of the last, by first folder of the path (JSON)
render_on array<string> | folders whose renders gain
render_off array<string> | folders whose renders gain nothing: no longer rendered
render_origins array<string> | origins that its rendered pages ask for
last_ips array<string> | addresses connected to, newest first
blacklisted boolean | never fetched
reason string | why blacklisted or blocked
first_seen timestamp | first round that planned it
flags array<string> | blocked ...
state_json string | the whole politeness state, handed to the next slot
updated_no int | round that wrote the row
""",
    ),
    make_table(
        "buckets",
        "What is due in each host bucket.",
        "host_bucket",
        "",
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
    ),
    make_table(
        "fetchlist",
        "crawl_generate: what a round plans to fetch; each row carries its crawldb row whole.",
        "round_id kind url_key",
        "round_id",
        _ROW
        + """
updated_no int | number of the round that wrote the state
round_id string | round
slot int | fetch task
region string | region that fetches it; empty: there are none
rank bigint | order inside the slot
kind string | page, robots, sitemap, feed, requisite or render
origin string | scheme://host[:port]
class string | class of its host
score double | priority score
explore boolean | chosen to explore, not by score
not_before timestamp | no request before this
robots_status int | robots rows: status of the stored copy
robots_body binary | robots rows: the stored copy
robots_fetched_at timestamp | robots rows: its time
robots_expires timestamp | robots rows: used until this
host_state string | robots rows: politeness state of the host (JSON)
doc_filename string | render rows: WARC file of the stored document
doc_offset bigint | render rows: offset of its record
doc_length bigint | render rows: length of its record
""",
    ),
)
