SELECT label, count(*) AS value
FROM (
  SELECT
    CASE
      WHEN n_change = 0 THEN 'never changed'
      WHEN n_change < 0.5 * (n_fetch - 1) THEN 'in less than half of the visits'
      WHEN n_change < n_fetch - 1 THEN 'in half of the visits or more'
      ELSE 'at each visit'
    END AS label
  FROM crawldb
  WHERE n_fetch > 1
)
GROUP BY 1
ORDER BY 2 DESC, 1
