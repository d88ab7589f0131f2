"""When two texts are the same or nearly the same."""
