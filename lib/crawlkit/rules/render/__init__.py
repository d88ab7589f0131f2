"""Pages that need a browser: which, and whether it was worth it."""
