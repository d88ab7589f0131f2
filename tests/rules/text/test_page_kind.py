"""What a page says it is."""

import pytest
from crawlkit.rules.page.markup import read_html
from crawlkit.rules.text.page_kind import page_kind


def ld(kind: str) -> str:
    return f'<script type="application/ld+json">{{"@type": {kind}}}</script>'


@pytest.mark.parametrize(
    "head, kind",
    [
        (ld('"NewsArticle"'), "article"),
        (ld('["BlogPosting", "Thing"]'), "article"),
        ('<meta property="article:published_time" content="2026-01-01">', "article"),
        (ld('"Product"'), "product"),
        (ld('"http://schema.org/ProductGroup"'), "product"),
        ('<meta property="og:type" content="product.item">', "product"),
        (ld('"Product"') + '<meta property="og:type" content="article">', None),
        (ld('"QAPage"'), "forum"),
        (ld('"DiscussionForumPosting"') + ld('"Article"'), "forum"),
        (ld('"CollectionPage"'), "listing"),
        ('<meta property="og:type" content="website">' + ld('"Organization"'), None),
        (ld('"ArticleTeaserList"'), None),
        ("", None),
    ],
)
def test_kinds(head, kind):
    assert page_kind(read_html(f"<head>{head}</head><p>text")) == kind
