"""What touches the world outside: network, stores, tables and WARC files."""
