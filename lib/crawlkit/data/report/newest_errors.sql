WITH failed AS (
  SELECT round_id, url, url_key, host, outcome, reason, status, detail, started
  FROM counted_errors
  ORDER BY round_id DESC, started DESC
  LIMIT 30
),
linked AS (
  SELECT to_key, min(from_url) AS referrer
  FROM links
  SEMI JOIN failed ON to_key = url_key
  GROUP BY to_key
)
SELECT round_id, started, url, host, outcome, reason, status, detail, referrer
FROM failed
LEFT JOIN linked ON to_key = url_key
ORDER BY round_id DESC, started DESC
