SELECT p.*, e.errors
FROM (
  SELECT
    count(CASE WHEN is_page THEN 1 END) AS `planned pages`,
    count(CASE WHEN is_page AND outcome = 'fetched' THEN 1 END) AS `pages fetched`,
    count(CASE WHEN is_page AND outcome = 'not_modified' THEN 1 END) AS `not modified`,
    count(CASE WHEN started IS NOT NULL THEN 1 END) AS requests,
    count(DISTINCT CASE WHEN started IS NOT NULL THEN host END) AS hosts,
    coalesce(sum(body_bytes), 0) AS `body bytes`,
    coalesce(sum(warc_record_length), 0) AS `stored bytes`,
    count(CASE WHEN record_type = 'revisit' THEN 1 END) AS revisits
  FROM (SELECT *, is_outcome AND kind = 'page' AS is_page FROM captures)
) p
CROSS JOIN (SELECT count(*) AS errors FROM counted_errors) e
