"""The command line: its options, settings and errors."""
