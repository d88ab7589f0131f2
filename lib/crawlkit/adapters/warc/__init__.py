"""WARC files: written, read, checked and rewritten."""
