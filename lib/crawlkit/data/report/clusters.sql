SELECT
  canonical_url,
  count(*) AS members,
  min(jaccard) AS least_jaccard,
  min(CASE WHEN method <> 'canonical' THEN url END) AS example,
  max(CASE WHEN method <> 'canonical' THEN url END) AS another
FROM duplicates
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 15
