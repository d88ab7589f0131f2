WITH asked AS (
  SELECT
    host,
    count(CASE WHEN is_outcome AND kind = 'page' AND outcome IN ('fetched', 'not_modified')
          THEN 1 END) AS pages,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY ms) AS p99
  FROM (
    SELECT
      *, CASE WHEN status IS NOT NULL THEN unix_millis(ended) - unix_millis(started) END AS ms
    FROM captures
  )
  GROUP BY host
),
failed AS (SELECT host, count(*) AS errors FROM counted_errors GROUP BY host),
queue AS (
  SELECT host, count(*) AS waiting
  FROM crawldb
  WHERE state IN ('queued', 'retrying')
  GROUP BY host
),
rules AS (
  SELECT host, answer AS robots
  FROM (
    SELECT
      host,
      coalesce(cast(status AS string), concat('unreachable: ', coalesce(error, ''))) AS answer,
      row_number() OVER (PARTITION BY host ORDER BY fetched_at DESC) AS place
    FROM robots
  )
  WHERE place = 1
)
SELECT
  named.host,
  count(*) OVER () AS hosts,
  coalesce(asked.pages, 0) AS pages,
  coalesce(failed.errors, 0) AS errors,
  coalesce(queue.waiting, 0) AS waiting,
  asked.p50,
  asked.p95,
  asked.p99,
  rules.robots,
  h.breaker,
  h.blacklisted,
  h.reason,
  h.state_json
FROM (SELECT host FROM asked UNION SELECT host FROM queue) AS named
LEFT JOIN asked ON named.host = asked.host
LEFT JOIN failed ON named.host = failed.host
LEFT JOIN queue ON named.host = queue.host
LEFT JOIN rules ON named.host = rules.host
LEFT JOIN hostdb AS h ON named.host = h.host
ORDER BY
  coalesce(asked.pages, 0) + coalesce(failed.errors, 0) + coalesce(queue.waiting, 0) DESC,
  named.host
LIMIT 200
