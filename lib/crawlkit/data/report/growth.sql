SELECT
  r.round_no AS x,
  max(CASE WHEN m.name = 'known_urls' THEN m.value END) AS known,
  max(CASE WHEN m.name = 'frontier_urls' THEN m.value END) AS waiting
FROM metrics m
JOIN rounds r ON m.round_id = r.round_id
WHERE m.name IN ('known_urls', 'frontier_urls')
GROUP BY 1
ORDER BY 1
