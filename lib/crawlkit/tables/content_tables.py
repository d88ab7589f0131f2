"""What was fetched and read."""

from __future__ import annotations

from crawlkit.tables.schema import make_table

TABLES = (
    make_table(
        "captures",
        "crawl_fetch: one row for each outcome and for each stored response or revisit record.",
        "capture_id",
        "round_id",
        """
capture_id string | round-slot-attempt-number
round_id string | round
url_key binary | key of the requested URL
url string | requested URL
kind string | page, robots, sitemap, feed, requisite, render, or subresource (in a browser)
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
record_type string | response, revisit, resource (imported) or conversion (a rendered document)
revisit_of string | capture_id of the first copy; of a render the document that was rendered
etag string | ETag
last_modified string | Last-Modified
cache_control string | Cache-Control
delay_ms bigint | gap in force before the request
robots_line string | the rule that decided
is_outcome boolean | false: a stored record beside the outcome (robots hop, second attempt)
planned_depth int | links from a seed, when it was planned
planned_redirects int | hops of the redirect chain, when it was planned
planned_class int | priority class, when it was planned
sent_url string | the URL as it was sent, where that is not url (WARC-Target-URI)
redirect_sent_url string | the target as the answer spells it, where that is not redirect_to
planned_host_class string | class of its host, when it was planned
render_ms bigint | render rows: time in the browser, waits for requests in it
""",
        also="Read by `crawlkit audit`.",
    ),
    make_table(
        "robots",
        "Every version of every robots.txt that was fetched.",
        "origin fetched_at",
        "round_id",
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
leads_to array<string> | origins of other registered domains to which its redirects led
round_id string | round
""",
        also="Read by `crawlkit audit`.",
    ),
    make_table(
        "pages",
        "What was read from a stored page.",
        "capture_id",
        "round_id",
        """
capture_id string | capture of the page
round_id string | round
url_key binary | key of the URL
url string | URL
host string | host
parser_version string | version of the parser
kind string | html, text, json, xml, pdf, docx, image, sitemap, feed or other
media_type string | media type as sent
charset string | encoding (WHATWG name)
title string | title
headline string | title as readers see it: main heading, or title without the site's name
description string | meta description
keywords string | meta keywords
author string | author
published string | date of publication as written
published_on string | date of publication, YYYY-MM-DD
declared_language string | language that the page declares
language string | language of the text, detected
robots_meta array<string> | directives in force for us
noindex boolean | says noindex
nofollow boolean | links not followed
canonical string | rel=canonical, canonical form
signals string | machine-readable opt-out signals (JSON)
metadata string | Open Graph, JSON-LD and other structured data; an image's size (JSON)
text string | visible text; null with noindex, a past unavailable_after, an enforced opt-out
main_text string | text without boilerplate; null where text is
page_kind string | article, product, forum or listing, as the page says itself; null if it does not
text_bytes bigint | length of the visible text
decoded_bytes bigint | length of the decoded body
body_sha256 string | SHA-256 of the decoded body
clean_sha256 string | SHA-256 of structure, text and links (HTML)
text_sha256 string | SHA-256 of the normalised text; null without text
named_sha256 string | sitemaps and feeds: SHA-256 of the addresses that they name
simhash bigint | 64-bit SimHash; null without text
minhash binary | 128 MinHash values, 32-bit little-endian; null without text
links int | links found
needs_js string | why it needs a browser: framework_root, noscript, little_text or no_links
rendered boolean | read from the document that a browser made of the stored one
static_text_bytes bigint | of a rendered page: length of the stored document's visible text
static_links int | of a rendered page: links of the stored document
static_similarity double | of a rendered page: share of the stored text that is in it, 0 to 1
cloaking string | why it may be cloaked: text_replaced, text_removed, links_replaced, links_removed
flags array<string> | truncated, cross_site_canonical, many_same_shape ...
""",
    ),
    make_table(
        "signals",
        "Opt-outs of AI use and of text and data mining that a round's pages and robots.txt files"
        " gave: one row for each.",
        "round_id url kind value",
        "round_id",
        """
round_id string | round
capture_id string | capture of the page or robots.txt
host string | host
url string | the page, or the robots.txt
found_in string | page or robots
kind string | ai, tdm_reservation or tdm_policy
value string | as given: `notrain`, `content-signal: ai-train=no`, 1 ...
""",
    ),
    make_table(
        "links",
        "The LinkDb: one row for each link of a stored page.",
        "capture_id n",
        "round_id",
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
hreflang string | language of the target, as given
kind string | a, area, canonical, redirect, image, requisite, state (inlined JSON) ...
refused string | reason why it does not enter the frontier
sent_url string | how it is requested: as the page spells it, where that is not to_url
""",
    ),
    make_table(
        "rejects",
        "What was refused on the way in, and why.",
        "round_id stage n",
        "round_id stage",
        """
round_id string | round
stage string | stage
n bigint | order
item string | URL or line as given
reason string | reason from the closed list
detail string | detail
capture_id string | page on which it was found
""",
    ),
)
