SELECT
  cast(
    floor(unix_millis(started) / 1000 / greatest(1, ceil(t.span_s / 120)))
      * greatest(1, ceil(t.span_s / 120)) AS bigint
  ) AS x,
  count(*) AS value
FROM captures
CROSS JOIN (
  SELECT coalesce((unix_millis(max(started)) - unix_millis(min(started))) / 1000, 1) AS span_s
  FROM captures
  WHERE started IS NOT NULL AND round_id = {round}
) t
WHERE started IS NOT NULL AND is_outcome AND kind = 'page' AND round_id = {round}
GROUP BY 1
ORDER BY 1
