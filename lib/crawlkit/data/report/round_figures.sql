WITH mine AS (
  SELECT
    *,
    CASE WHEN status IS NOT NULL THEN unix_millis(ended) - unix_millis(started) END AS ms,
    is_outcome AND kind = 'page' AND outcome IN ('fetched', 'not_modified') AS is_page
  FROM captures
  WHERE round_id = {round}
),
seconds AS (
  SELECT
    floor(unix_millis(ended) / 1000) AS second,
    count(CASE WHEN is_page THEN 1 END) AS pages,
    coalesce(sum(body_bytes), 0) AS bytes
  FROM mine
  WHERE ended IS NOT NULL
  GROUP BY 1
)
SELECT m.*, s.peak_pages_per_s, s.peak_bytes_per_s, p.outlinks_per_page
FROM (
  SELECT
    coalesce(sum(body_bytes), 0) AS body_bytes,
    count(CASE WHEN is_outcome AND outcome = 'robots_denied' THEN 1 END) AS robots_blocked,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
  FROM mine
) m
CROSS JOIN (
  SELECT max(pages) AS peak_pages_per_s, max(bytes) AS peak_bytes_per_s FROM seconds
) s
CROSS JOIN (SELECT avg(links) AS outlinks_per_page FROM pages WHERE round_id = {round}) p
