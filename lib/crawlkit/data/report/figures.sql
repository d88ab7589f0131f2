SELECT c.*, d.copies, f.frontier, f.renders_waiting, f.known, f.stored, g.bytes_last_day, r.renders,
  r.renders_failed, r.render_gains, r.render_ms, r.render_p95_ms
FROM (
  SELECT
    count(CASE WHEN is_page AND outcome IN ('fetched', 'not_modified') THEN 1 END) AS pages,
    count(CASE WHEN is_page AND outcome IN ('failed', 'http_error') THEN 1 END) AS failed,
    count(CASE WHEN status IS NOT NULL THEN 1 END) AS answers,
    count(CASE WHEN status IN (429, 503) THEN 1 END) AS throttled,
    coalesce(
      avg(CASE WHEN status IS NOT NULL THEN unix_millis(ended) - unix_millis(started) END), 0
    ) AS latency_ms
  FROM (SELECT *, is_outcome AND kind = 'page' AS is_page FROM captures WHERE round_id = {round})
) c
CROSS JOIN (SELECT count(CASE WHEN method NOT IN ('canonical', 'redirect') THEN 1 END) AS copies FROM duplicates) d
CROSS JOIN (
  SELECT
    count(CASE WHEN u.state IN ('queued', 'retrying') THEN 1 END) AS frontier,
    count(CASE WHEN {waits} THEN 1 END) AS renders_waiting,
    count(*) AS known,
    count(u.capture_id) AS stored
  FROM crawldb u LEFT JOIN hostdb h ON u.host = h.host
) f
CROSS JOIN (
  SELECT coalesce(sum(warc_record_length), 0) AS bytes_last_day
  FROM captures
  WHERE started > (SELECT max(started) - INTERVAL 1 DAY FROM captures)
) g
CROSS JOIN (
  SELECT
    count(*) AS renders,
    count(CASE WHEN c.outcome <> 'fetched' THEN 1 END) AS renders_failed,
    count(CASE WHEN {gained} THEN 1 END) AS render_gains,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY c.render_ms) AS render_ms,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY c.render_ms) AS render_p95_ms
  FROM renders c LEFT JOIN pages p ON c.capture_id = p.capture_id
  WHERE c.is_outcome AND c.outcome <> 'deferred'
) r
