"""What is computed from the pages: duplicates and ranks."""

from __future__ import annotations

from crawlkit.tables.schema import make_table

TABLES = (
    make_table(
        "contents",
        "The text of each URL, or where it leads, by round; the newest row of a URL counts.",
        "round_id url_key",
        "round_id",
        """
round_id string | round
round_no int | its number
url_key binary | URL
url string | URL
capture_id string | capture
text_sha256 string | SHA-256 of the normalised text; null without text
canonical string | its canonical link to another page of the site
redirect_to string | target of its redirect
""",
    ),
    make_table(
        "sim_bands",
        "Keys under which nearly equal texts meet: one set for each distinct text.",
        "text_sha256 scheme band",
        "round_id",
        """
round_id string | round that brought the text
scheme string | simhash (four 16-bit blocks) or minhash (LSH bands)
band int | block or band
hash bigint | its value
text_sha256 string | the text
capture_id string | a capture that has it
simhash bigint | 64-bit SimHash of the text
""",
    ),
    make_table(
        "similar",
        "Pairs of distinct texts that were compared and found similar.",
        "a_text b_text",
        "round_id",
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
    ),
    make_table(
        "duplicates",
        "Clusters of URLs that are one page by text, canonical link or redirect, a row each.",
        "url_key",
        "",
        """
url_key binary | member
url string | member
capture_id string | its capture
cluster_id binary | url_key of the canonical page
canonical_url string | the page that represents the cluster
method string | exact, minhash, simhash, canonical_link or redirect; canonical for the page itself
evidence_url string | page it was compared with: has that text now, else had it then
distance int | SimHash distance to it; null for hints
jaccard double | Jaccard with it; null for hints
size int | members of the cluster
""",
    ),
    make_table(
        "ranks",
        "In-links of each page.",
        "url_key",
        "",
        """
url_key binary | page
inlinks bigint | pages that link to it
inlink_hosts bigint | hosts that link to it
round_no int | computed after this round
""",
    ),
    make_table(
        "host_ranks",
        "Quality of each host, from counts.",
        "host",
        "",
        """
host string | host
inlink_hosts bigint | other hosts that link to it
pages bigint | stored pages
error_share double | failed share of its fetches
duplicate_share double | share of its pages that are aliases of others
quality double | 0 to 1
round_no int | computed after this round
""",
    ),
    make_table(
        "domain_authority",
        "Ranked lists of domains, as imported (`crawlkit import ranks`).",
        "list domain",
        "list",
        """
list string | name of the list
domain string | registered domain
rank bigint | its place in the list, from 1
authority double | 1 for the first, falling by the logarithm of the rank to 0 for the ten-millionth
""",
        also="Written by `crawlkit import ranks`.",
    ),
    make_table(
        "param_rules",
        "Query parameters that a host's pages say do not matter: proposals. A rule is in force once"
        " it is in urls.host_params.",
        "host name",
        "",
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
        also="Read by `crawlkit params`.",
    ),
)
