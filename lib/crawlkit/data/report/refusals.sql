SELECT label, sum(n) AS value
FROM (
  SELECT concat(outcome, ': ', reason) AS label, 1 AS n
  FROM captures
  WHERE is_outcome AND reason IS NOT NULL
  UNION ALL
  SELECT concat(stage, ': ', reason), 1 FROM rejects
)
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 20
