"""URLs: the canonical form, the scope, registered domains, seeds, forbidden addresses."""
