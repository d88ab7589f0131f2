SELECT label, sum(fetched) AS fetched, sum(redirected) AS redirected, sum(error) AS errors
FROM (
  SELECT
    round_id AS label,
    CASE WHEN outcome IN ('fetched', 'not_modified') THEN 1 ELSE 0 END AS fetched,
    CASE WHEN outcome = 'redirected' THEN 1 ELSE 0 END AS redirected,
    0 AS error
  FROM captures
  WHERE is_outcome AND kind = 'page'
  UNION ALL
  SELECT round_id, 0, 0, 1 FROM counted_errors
)
GROUP BY 1
ORDER BY 1
