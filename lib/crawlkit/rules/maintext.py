"""Main text of a page: what is left without navigation, lists of links, forms and footers."""

from __future__ import annotations

from crawlkit.rules.html import ASIDE, FOOTER, FORM, NAV, Document

_OUTSIDE = NAV | FOOTER | ASIDE | FORM


def main_text(doc: Document) -> str:
    """Main text: one line for each block."""
    return "\n".join(b.text for b in doc.blocks if not b.flags & _OUTSIDE and 2 * b.link_chars <= len(b.text))
