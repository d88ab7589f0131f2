SELECT coalesce(sum(wall_s), 0) AS seconds, coalesce(sum(cpu_s), 0) AS cpu_s
FROM stages
WHERE stage = 'fetch'
