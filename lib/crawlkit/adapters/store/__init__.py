"""Objects in a folder or in S3: leases, part manifests, orders of operators, the spool."""
