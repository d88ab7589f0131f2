"""Files that other tools read, made from tables and WARC files without Spark."""
