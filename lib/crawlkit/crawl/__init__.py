"""A crawl on disk or in S3: its rounds, claims, marks and locks, and its opening for work."""
