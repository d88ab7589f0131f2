"""dedup, third step: the connected components of merged pairs and of hints (canonical links,
redirects) over the URLs' newest texts.
"""

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


_NEWEST = """
    texts AS (
        SELECT *, coalesce(text_sha256, url) AS node, row_number() OVER (
            PARTITION BY url_key ORDER BY round_no DESC) AS place
        FROM {contents}
    ),
    newest AS (SELECT * FROM texts WHERE place = 1)"""


def find_hints(contents: Frame, similar: Frame) -> Frame:
    """Pages that name another known page as themselves: a_url names b_url; their texts (its URL for
    one without text), captures and rounds; method: canonical_link or redirect.

    A canonical link between texts that share too little is left out: `similar` has such pairs.
    """
    query = f"""
        WITH {_NEWEST}
        SELECT h.* FROM (
            SELECT p.url AS a_url, t.url AS b_url, p.node AS a_text, t.node AS b_text,
                p.capture_id AS a_capture, t.capture_id AS b_capture, p.round_id AS a_round,
                t.round_id AS b_round,
                CASE WHEN p.redirect_to IS NULL THEN 'canonical_link' ELSE 'redirect' END AS method
            FROM newest AS p JOIN newest AS t ON coalesce(p.redirect_to, p.canonical) = t.url
            WHERE p.url <> t.url
        ) AS h ANTI JOIN (SELECT * FROM {{similar}} WHERE method = 'canonical_link') AS s
        ON h.method = s.method AND h.a_text = s.a_text AND h.b_text = s.b_text
    """
    return contents.engine.query(query, contents=contents, similar=similar)


def new_canonical_links(contents: Frame, similar: Frame, round_id: str) -> pa.Table:
    """Those of `find_hints` between two texts of which one is the round's."""
    rounds = f"(a_round = '{round_id}' OR b_round = '{round_id}')"
    texts = "a_text <> b_text AND a_text <> a_url AND b_text <> b_url"
    hints = find_hints(contents, similar.where(f"round_id <> '{round_id}'"))
    return hints.where(f"method = 'canonical_link' AND {texts} AND {rounds}").to_arrow()


def cluster(contents: Frame, similar: Frame, ranks: Frame) -> Frame:
    """`duplicates`: the members of all clusters of two URLs and more, with canonical page and
    evidence.

    Args:
        contents, similar, ranks: the tables of these names, whole.
    """
    engine = contents.engine
    merged = similar.where("merged").select("a_text", "b_text", "method", "distance", "jaccard")
    hints = find_hints(contents, similar).to_arrow()
    edges = [merged.select("a_text", "b_text").to_arrow(), hints.select(["a_text", "b_text"])]
    joined, roots = components(pa.concat_tables(edges))
    root_of = engine.from_arrow(pa.table({"node": joined, "root": roots}))
    frames = {"contents": contents, "merged": merged, "ranks": ranks, "root_of": root_of}
    return engine.query(_CLUSTER, hints=engine.from_arrow(hints), **frames)


# `near`: the evidence of a text's nearest neighbour, best one that a page still has; a text that
# all pages have lost joins its neighbours still. `twins`: for members that another with their text
# brought into the cluster.
_CLUSTER = f"""
    WITH {_NEWEST},
    named AS (
        SELECT b_url AS url, count(*) AS named, min(a_url) AS by_url, min(method) AS method
        FROM {{hints}} GROUP BY b_url
    ),
    rooted AS (
        SELECT /*+ BROADCAST(r) */ n.*, coalesce(r.root, n.node) AS root
        FROM newest AS n LEFT JOIN {{root_of}} AS r ON n.node = r.node
    ),
    sized AS (SELECT *, count(*) OVER (PARTITION BY root) AS size FROM rooted),
    headed AS (
        SELECT s.*, d.by_url, d.method AS named_method,
            first_value(s.url_key) OVER best AS cluster_id,
            first_value(s.url) OVER best AS canonical_url,
            first_value(s.text_sha256) OVER best AS head_text
        FROM sized AS s LEFT JOIN {{ranks}} AS k ON s.url_key = k.url_key
        LEFT JOIN named AS d ON s.url = d.url
        WHERE s.size > 1
        WINDOW best AS (
            PARTITION BY s.root
            ORDER BY CASE WHEN s.text_sha256 IS NOT NULL THEN 0 WHEN s.redirect_to IS NULL THEN 1
                    ELSE 2 END,
                CASE WHEN s.url LIKE 'https:%' THEN 0 ELSE 1 END,
                coalesce(k.inlinks, 0) DESC, coalesce(d.named, 0) DESC, length(s.url), s.url)
    ),
    sides AS (
        SELECT a_text AS text_sha256, b_text AS other, method, distance, jaccard FROM {{merged}}
        UNION ALL
        SELECT b_text, a_text, method, distance, jaccard FROM {{merged}}
    ),
    pages AS (
        SELECT text_sha256, past, url FROM (
            SELECT text_sha256, place > 1 AS past, url, row_number() OVER (
                PARTITION BY text_sha256 ORDER BY place > 1, url) AS n
            FROM texts WHERE text_sha256 IS NOT NULL
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
    twins AS (SELECT node, min(url) AS first, max(url) AS last FROM newest GROUP BY node),
    told AS (
        SELECT m.*, n.method AS near_method, n.distance AS near_distance,
            n.jaccard AS near_jaccard, n.evidence_url AS near_url,
            coalesce(h.method, m.named_method) AS hint_method,
            coalesce(h.b_url, m.by_url) AS hint_url,
            CASE WHEN t.first = m.url THEN t.last ELSE t.first END AS twin_url,
            CASE WHEN m.url_key = m.cluster_id THEN 'canonical'
                WHEN m.text_sha256 = m.head_text THEN 'exact'
                WHEN n.method IS NOT NULL THEN 'near'
                WHEN coalesce(h.method, m.named_method) IS NOT NULL THEN 'hint'
                ELSE 'twin' END AS role
        FROM headed AS m LEFT JOIN near AS n ON m.text_sha256 = n.text_sha256
        LEFT JOIN {{hints}} AS h ON m.url = h.a_url
        LEFT JOIN twins AS t ON m.node = t.node
    )
    SELECT url_key, url, capture_id, cluster_id, canonical_url, size,
        CASE role WHEN 'near' THEN near_method WHEN 'hint' THEN hint_method
            WHEN 'twin' THEN 'exact' ELSE role END AS method,
        CASE role WHEN 'near' THEN near_url WHEN 'exact' THEN canonical_url
            WHEN 'hint' THEN hint_url WHEN 'twin' THEN twin_url END AS evidence_url,
        CASE role WHEN 'near' THEN near_distance WHEN 'hint' THEN NULL ELSE 0 END AS distance,
        CASE role WHEN 'near' THEN near_jaccard WHEN 'hint' THEN NULL ELSE 1e0 END AS jaccard
    FROM told
"""


def count_members(duplicates: Frame) -> dict[str, int]:
    """Members of clusters, and clusters."""
    return duplicates.select(
        "count(*) AS members", "count(DISTINCT cluster_id) AS clusters"
    ).rows()[0]
