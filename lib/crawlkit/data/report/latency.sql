SELECT label, count(*) AS answers
FROM (
  SELECT
    ms,
    CASE
      WHEN ms < 10 THEN '0-10'
      WHEN ms < 30 THEN '10-30'
      WHEN ms < 100 THEN '30-100'
      WHEN ms < 300 THEN '100-300'
      WHEN ms < 1000 THEN '300-1k'
      WHEN ms < 3000 THEN '1k-3k'
      ELSE '3k+'
    END AS label
  FROM (
    SELECT unix_millis(ended) - unix_millis(started) AS ms FROM captures WHERE status IS NOT NULL
  )
)
GROUP BY 1
ORDER BY min(ms)
