SELECT
  host AS label,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY unix_millis(ended) - unix_millis(started)) AS value
FROM captures
WHERE status IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 10
