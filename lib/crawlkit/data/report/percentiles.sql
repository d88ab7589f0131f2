SELECT
  percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95,
  percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
FROM (
  SELECT unix_millis(ended) - unix_millis(started) AS ms FROM captures WHERE status IS NOT NULL
)
