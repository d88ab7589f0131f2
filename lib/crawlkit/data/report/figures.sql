SELECT c.*, d.copies, f.frontier, f.known, f.stored, g.bytes_last_day
FROM (
  SELECT
    count_if(is_outcome AND kind = 'page' AND outcome IN ('fetched', 'not_modified')) AS pages,
    count_if(is_outcome AND kind = 'page' AND outcome IN ('failed', 'http_error')) AS failed,
    count_if(status IS NOT NULL) AS answers,
    count_if(status IN (429, 503)) AS throttled,
    coalesce(
      avg(CASE WHEN status IS NOT NULL THEN unix_millis(ended) - unix_millis(started) END), 0
    ) AS latency_ms
  FROM captures
  WHERE round_id = {round}
) c
CROSS JOIN (SELECT count_if(method <> 'canonical') AS copies FROM duplicates) d
CROSS JOIN (
  SELECT
    count_if(state IN ('queued', 'retrying')) AS frontier,
    count(*) AS known,
    count(capture_id) AS stored
  FROM crawldb
) f
CROSS JOIN (
  SELECT coalesce(sum(warc_record_length), 0) AS bytes_last_day
  FROM captures
  WHERE started > (SELECT max(started) - INTERVAL 1 DAY FROM captures)
) g
