"""What a round brought: the report page, metrics, alerts and the audit of politeness."""
