"""A page: its encoding, markup, links, text and metadata."""
