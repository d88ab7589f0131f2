"""Pages rendered by a browser that has no network."""
