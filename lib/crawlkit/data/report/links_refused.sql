SELECT refused AS label, count(*) AS value
FROM links
WHERE refused IS NOT NULL
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 15
