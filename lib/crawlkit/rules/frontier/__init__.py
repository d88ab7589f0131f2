"""What becomes of a URL: its outcome, its next fetch, its order in the frontier."""
