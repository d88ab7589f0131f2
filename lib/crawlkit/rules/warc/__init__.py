"""What goes into WARC records and their indexes: headers, digests, index lines."""
