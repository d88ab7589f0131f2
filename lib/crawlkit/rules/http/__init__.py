"""HTTP as far as it is about bytes and fields: messages, codings, cookies, redirects."""
