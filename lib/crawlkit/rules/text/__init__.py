"""The text of a page that a reader came for."""
