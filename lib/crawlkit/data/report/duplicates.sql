SELECT method AS label, count(*) AS value
FROM duplicates
GROUP BY 1
ORDER BY 2 DESC, 1
