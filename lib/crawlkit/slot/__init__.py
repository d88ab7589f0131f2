"""One fetch task: many hosts at once, each at its pace."""
