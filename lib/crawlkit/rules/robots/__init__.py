"""robots.txt, and the directives about robots in pages and header fields."""
