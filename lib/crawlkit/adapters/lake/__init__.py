"""The Delta tables of a crawl: read and written."""
