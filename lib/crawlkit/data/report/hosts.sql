SELECT host AS label, count(*) AS value
FROM captures
WHERE is_outcome AND kind = 'page' AND outcome IN ('fetched', 'not_modified')
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 15
