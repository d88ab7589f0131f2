SELECT
  round_id AS label,
  count_if(outcome IN ('fetched', 'not_modified')) AS fetched,
  count_if(outcome IN ('failed', 'http_error')) AS errors,
  count_if(outcome = 'redirected') AS redirected
FROM captures
WHERE is_outcome AND kind = 'page'
GROUP BY 1
ORDER BY 1 DESC
LIMIT 30
