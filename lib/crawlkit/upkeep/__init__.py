"""Work between rounds: maintain, purge, rebuild, reconcile, import."""
