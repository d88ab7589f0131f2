SELECT
  CASE WHEN depth < 15 THEN cast(depth AS string) ELSE '15+' END AS label,
  count(CASE WHEN state = 'fetched' THEN 1 END) AS fetched,
  count(CASE WHEN state IN ('queued', 'retrying') THEN 1 END) AS waiting,
  count(CASE WHEN state NOT IN ('fetched', 'queued', 'retrying') THEN 1 END) AS other
FROM crawldb
WHERE depth IS NOT NULL
GROUP BY 1
ORDER BY min(depth)
