"""dedup, third step: the connected components of merged pairs over the URLs' newest texts."""

from __future__ import annotations

import pyarrow as pa

from crawlkit.engine.frame import Frame
from crawlkit.rules.duplicates.clusters import component_of


def components(pairs: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The texts of pairs (a_text, b_text) and, for each, one text of its component that represents
    all.
    """
    ends = (
        pa.chunked_array([*pairs["a_text"].chunks, *pairs["b_text"].chunks], pa.string())
        .combine_chunks()
        .dictionary_encode()
    )
    code = ends.indices.to_numpy()
    root = component_of(code[: len(pairs)], code[len(pairs) :], len(ends.dictionary))
    return ends.dictionary, ends.dictionary.take(pa.array(root))


def cluster(contents: Frame, similar: Frame, ranks: Frame) -> Frame:
    """`duplicates`: the members of all clusters of two URLs and more, with canonical page and
    evidence.

    Args:
        contents, similar, ranks: the tables of these names, whole.
    """
    engine = contents.engine
    merged = similar.where("merged").select("a_text", "b_text", "method", "distance", "jaccard")
    joined, roots = components(merged.select("a_text", "b_text").to_arrow())
    root_of = engine.from_arrow(pa.table({"text_sha256": joined, "root": roots}))
    return engine.query(_CLUSTER, contents=contents, merged=merged, ranks=ranks, root_of=root_of)


# `newest`: the newest text of each URL. `near`: the evidence of a text's nearest neighbour, best
# one that a page still has; a text that all pages have lost joins its neighbours still.
_CLUSTER = """
    WITH texts AS (
        SELECT * FROM (
            SELECT url_key, url, capture_id, text_sha256,
                row_number() OVER (PARTITION BY url_key ORDER BY round_no DESC) AS place
            FROM {contents}
        ) AS c WHERE text_sha256 IS NOT NULL
    ),
    newest AS (
        SELECT /*+ BROADCAST(r) */ t.url_key, t.url, t.capture_id, t.text_sha256,
            coalesce(r.root, t.text_sha256) AS root
        FROM texts AS t LEFT JOIN {root_of} AS r ON t.text_sha256 = r.text_sha256
        WHERE t.place = 1
    ),
    sized AS (SELECT *, count(*) OVER (PARTITION BY root) AS size FROM newest),
    headed AS (
        SELECT s.*, first_value(s.url_key) OVER best AS cluster_id,
            first_value(s.url) OVER best AS canonical_url,
            first_value(s.text_sha256) OVER best AS head_text
        FROM sized AS s LEFT JOIN {ranks} AS k ON s.url_key = k.url_key WHERE s.size > 1
        WINDOW best AS (
            PARTITION BY s.root ORDER BY coalesce(k.inlinks, 0) DESC, length(s.url), s.url)
    ),
    sides AS (
        SELECT a_text AS text_sha256, b_text AS other, method, distance, jaccard FROM {merged}
        UNION ALL
        SELECT b_text, a_text, method, distance, jaccard FROM {merged}
    ),
    pages AS (
        SELECT text_sha256, past, url FROM (
            SELECT text_sha256, place > 1 AS past, url, row_number() OVER (
                PARTITION BY text_sha256 ORDER BY place > 1, url) AS n
            FROM texts
        ) AS t WHERE n = 1
    ),
    near AS (
        SELECT * FROM (
            SELECT s.text_sha256, s.method, s.distance, s.jaccard, p.url AS evidence_url,
                row_number() OVER (PARTITION BY s.text_sha256
                    ORDER BY p.past, s.jaccard DESC, p.url DESC) AS n
            FROM sides AS s JOIN pages AS p ON s.other = p.text_sha256
        ) AS x WHERE n = 1
    ),
    told AS (
        SELECT m.*, n.method AS near_method, n.distance AS near_distance,
            n.jaccard AS near_jaccard, n.evidence_url AS near_url,
            CASE WHEN m.url_key = m.cluster_id THEN 'canonical'
                WHEN m.text_sha256 = m.head_text THEN 'exact' ELSE 'near' END AS role
        FROM headed AS m LEFT JOIN near AS n ON m.text_sha256 = n.text_sha256
    )
    SELECT url_key, url, capture_id, cluster_id, canonical_url, size,
        CASE WHEN role = 'near' THEN coalesce(near_method, 'exact') ELSE role END AS method,
        CASE role WHEN 'near' THEN near_url WHEN 'exact' THEN canonical_url END AS evidence_url,
        CASE WHEN role = 'near' THEN near_distance ELSE 0 END AS distance,
        CASE WHEN role = 'near' THEN near_jaccard ELSE 1e0 END AS jaccard
    FROM told
"""


def count_members(duplicates: Frame) -> dict[str, int]:
    """Members of clusters, and clusters."""
    return duplicates.select(
        "count(*) AS members", "count(DISTINCT cluster_id) AS clusters"
    ).rows()[0]
