SELECT state AS label, count(*) AS value
FROM crawldb
GROUP BY 1
ORDER BY 2 DESC, 1
