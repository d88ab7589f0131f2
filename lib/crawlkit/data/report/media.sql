SELECT
  coalesce(nullif(lower(trim(regexp_replace(content_type, ';.*', ''))), ''), 'not told') AS label,
  count(*) AS value
FROM captures
WHERE is_outcome AND kind = 'page' AND outcome = 'fetched'
GROUP BY 1
ORDER BY 2 DESC, 1
LIMIT 12
