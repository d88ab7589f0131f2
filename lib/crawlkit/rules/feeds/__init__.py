"""Sitemaps and feeds: what they name."""
