"""A round driven through its stages, and the wiring of each stage."""
