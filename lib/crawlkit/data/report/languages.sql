SELECT coalesce(nullif(language, ''), 'not told') AS label, count(*) AS value
FROM pages
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 12
