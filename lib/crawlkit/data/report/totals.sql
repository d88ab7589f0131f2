SELECT
  count_if(is_outcome AND kind = 'page') AS `planned pages`,
  count_if(is_outcome AND kind = 'page' AND outcome = 'fetched') AS `pages fetched`,
  count_if(is_outcome AND kind = 'page' AND outcome = 'not_modified') AS `not modified`,
  count_if(started IS NOT NULL) AS requests,
  coalesce(sum(body_bytes), 0) AS `bytes stored`,
  count(DISTINCT CASE WHEN started IS NOT NULL THEN host END) AS hosts,
  count_if(record_type = 'revisit') AS revisits,
  count_if(is_outcome AND kind = 'page' AND outcome IN ('failed', 'http_error')) AS errors
FROM captures
