"""What other tools left, taken into a crawl: lists of URLs, and WARC files."""
