SELECT host AS label, cast(avg(unix_millis(ended) - unix_millis(started)) AS bigint) AS value
FROM captures
WHERE status IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 10
