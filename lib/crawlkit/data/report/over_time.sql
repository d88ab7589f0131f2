SELECT
  cast(floor((unix_millis(started) / 1000 - t.begun) / t.bin) * t.bin AS bigint) AS x,
  count(*) / min(t.bin) AS `pages a second`
FROM captures
CROSS JOIN (
  SELECT
    min(unix_millis(started)) / 1000 AS begun,
    greatest(1, ceil((max(unix_millis(started)) - min(unix_millis(started))) / 1000 / 120)) AS bin
  FROM captures
  WHERE started IS NOT NULL AND round_id = {round}
) t
WHERE started IS NOT NULL AND is_outcome AND kind = 'page' AND round_id = {round}
GROUP BY 1
ORDER BY 1
