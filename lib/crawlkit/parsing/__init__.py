"""One stored capture read into pages, links and discovery records."""
