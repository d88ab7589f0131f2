SELECT label, upper_ms, count(*) AS answers, sum(ms) AS sum_ms
FROM (
  SELECT
    ms,
    CASE
      WHEN ms <= 10 THEN '0-10'
      WHEN ms <= 30 THEN '10-30'
      WHEN ms <= 100 THEN '30-100'
      WHEN ms <= 300 THEN '100-300'
      WHEN ms <= 1000 THEN '300-1k'
      WHEN ms <= 3000 THEN '1k-3k'
      WHEN ms <= 10000 THEN '3k-10k'
      ELSE '10k+'
    END AS label,
    CASE
      WHEN ms <= 10 THEN 10
      WHEN ms <= 30 THEN 30
      WHEN ms <= 100 THEN 100
      WHEN ms <= 300 THEN 300
      WHEN ms <= 1000 THEN 1000
      WHEN ms <= 3000 THEN 3000
      WHEN ms <= 10000 THEN 10000
    END AS upper_ms
  FROM (
    SELECT unix_millis(ended) - unix_millis(started) AS ms FROM captures WHERE status IS NOT NULL
  )
)
GROUP BY 1, 2
ORDER BY min(ms)
