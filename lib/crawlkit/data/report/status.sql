SELECT coalesce(cast(status AS string), reason) AS label, count(*) AS value
FROM captures
WHERE started IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 20
