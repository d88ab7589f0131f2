"""What is decided, as pure functions of values: no clock, no chance, no network."""
