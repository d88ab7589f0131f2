"""The stages of a round, each with the tables that it reads and writes."""
