"""Sixty pages as twelve page builders write them: five kinds of content in the nested elements and
class names that each builder's own output has, with a header, menu, form, teasers and footer.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

_SUBJECTS = "the crew|our workshop|a small team|the harbour|every guest|the old boat|a good sail"
_VERBS = "repairs|carries|needs|welcomes|has kept|looks after|builds"
_OBJECTS = "wooden hulls|new canvas|people from the village|tools for the winter|charts and maps"
_ENDS = "before the season starts|in all weathers|without a word|for more than thirty years|by hand"
KINDS = ("article", "service", "landing", "faq", "about")


class Section(NamedTuple):
    heading: str
    paragraphs: list[str]
    items: list[str]


class BuilderPage(NamedTuple):
    builder: str
    kind: str
    markup: str
    text: str


def _sentences(rng: Random, count: int) -> str:
    def one() -> str:
        words = (rng.choice(w.split("|")) for w in (_SUBJECTS, _VERBS, _OBJECTS, _ENDS))
        return " ".join(words).capitalize() + "."

    return " ".join(one() for _ in range(count))


def _sections(kind: str, rng: Random) -> list[Section]:
    """Of an article long paragraphs; of the others short ones, and lists."""

    def section(paragraphs: int, sentences: int, items: int = 0) -> Section:
        return Section(
            _sentences(rng, 1).rstrip("."),
            [_sentences(rng, sentences) for _ in range(paragraphs)],
            [_sentences(rng, 1) for _ in range(items)],
        )

    shapes = {
        "article": [(3, 4), (2, 5), (2, 4, 4)],
        "service": [(1, 3), (1, 2, 5), (2, 2), (1, 2)],
        "landing": [(1, 2), (1, 1), (1, 1), (1, 1), (1, 2)],
        "faq": [(1, 2)] * 6,
        "about": [(2, 3), (1, 2, 3), (1, 1), (1, 1)],
    }
    return [section(*shape) for shape in shapes[kind]]


# each: the wrapper of the page, of a section, of a heading, of a paragraph, of a list
_SHELLS = {
    "elementor": (
        "<div data-elementor-type=wp-page class='elementor elementor-12'>{}</div>",
        "<section class='elementor-section elementor-top-section elementor-element'><div"
        " class='elementor-container elementor-column-gap-default'><div class='elementor-column"
        " elementor-col-100'><div class='elementor-widget-wrap elementor-element-populated'>{}"
        "</div></div></div></section>",
        "<div class='elementor-element elementor-widget elementor-widget-heading'><div"
        " class=elementor-widget-container><h2 class=elementor-heading-title>{}</h2></div></div>",
        "<div class='elementor-element elementor-widget elementor-widget-text-editor'><div"
        " class=elementor-widget-container><p>{}</p></div></div>",
        "<div class='elementor-widget elementor-widget-icon-list'><ul"
        " class=elementor-icon-list-items>{}</ul></div>",
    ),
    "divi": (
        "<div id=et-boc class=et-boc><div class='et_builder_inner_content et_pb_gutters3'>{}</div>"
        "</div>",
        "<div class='et_pb_section et_pb_section_1 et_section_regular'><div class='et_pb_row'>"
        "<div class='et_pb_column et_pb_column_4_4 et-last-child'>{}</div></div></div>",
        "<div class='et_pb_module et_pb_text et_pb_text_align_left'><div class=et_pb_text_inner>"
        "<h2>{}</h2></div></div>",
        "<div class='et_pb_module et_pb_text et_pb_bg_layout_light'><div class=et_pb_text_inner>"
        "<p>{}</p></div></div>",
        "<div class='et_pb_module et_pb_blurb'><div class=et_pb_blurb_content><ul>{}</ul></div>"
        "</div>",
    ),
    "wpbakery": (
        "<div class='page-content wpb-content-wrapper'>{}</div>",
        "<div class='vc_row wpb_row vc_row-fluid'><div class='wpb_column vc_column_container"
        " vc_col-sm-12'><div class=vc_column-inner><div class=wpb_wrapper>{}</div></div></div>"
        "</div>",
        "<h2 class='vc_custom_heading'>{}</h2>",
        "<div class='wpb_text_column wpb_content_element'><div class=wpb_wrapper><p>{}</p></div>"
        "</div>",
        "<div class='wpb_text_column'><div class=wpb_wrapper><ul>{}</ul></div></div>",
    ),
    "beaver": (
        "<div class='fl-builder-content fl-builder-content-7'>{}</div>",
        "<div class='fl-row fl-row-full-width'><div class=fl-row-content-wrap><div"
        " class='fl-row-content fl-node-content'><div class=fl-col-group><div class=fl-col><div"
        " class='fl-col-content fl-node-content'>{}</div></div></div></div></div></div>",
        "<div class='fl-module fl-module-heading'><h2 class=fl-heading><span"
        " class=fl-heading-text>{}</span></h2></div>",
        "<div class='fl-module fl-module-rich-text'><div class=fl-rich-text><p>{}</p></div></div>",
        "<div class=fl-rich-text><ul>{}</ul></div>",
    ),
    "gutenberg": (
        "<div class='entry-content wp-block-post-content is-layout-constrained'>{}</div>",
        "<div class='wp-block-group alignfull has-background is-layout-flow'><div"
        " class=wp-block-columns><div class='wp-block-column is-layout-flow'>{}</div></div></div>",
        "<h2 class=wp-block-heading>{}</h2>",
        "<p class='has-medium-font-size'>{}</p>",
        "<ul class=wp-block-list>{}</ul>",
    ),
    "wix": (
        "<div id=PAGES_CONTAINER><div id=SITE_PAGES class=SITE_PAGES_TRANSITION_GROUP><div"
        " class='JsJXaX'>{}</div></div></div>",
        "<section id=comp-l1 class='comp-l1 CohWsy wixui-column-strip'><div"
        " data-testid=columns class=V5AUxf><div class='YzqVVZ wixui-column-strip__column'>{}</div>"
        "</div></section>",
        "<div class='HcOXKn SxM0TO QxJLC3 wixui-rich-text' data-testid=richTextElement><h2"
        " class='font_2 wixui-rich-text__text'><span class=wixui-rich-text__text>{}</span></h2>"
        "</div>",
        "<div class='HcOXKn SxM0TO wixui-rich-text' data-testid=richTextElement><p"
        " class='font_8 wixui-rich-text__text'><span>{}</span></p></div>",
        "<div class=wixui-rich-text><ul class='font_8'>{}</ul></div>",
    ),
    "squarespace": (
        "<main id=page class=container role=main><article class=sections id=sections>{}</article>"
        "</main>",
        "<section class='page-section full-bleed-section layout-engine-section'><div"
        " class=section-background></div><div class=content-wrapper><div class=content><div"
        " class='sqs-layout sqs-grid-12'><div class='row sqs-row'><div class='col sqs-col-12'>{}"
        "</div></div></div></div></div></section>",
        "<div class='sqs-block html-block sqs-block-html'><div class=sqs-block-content><h2>{}</h2>"
        "</div></div>",
        "<div class='sqs-block html-block sqs-block-html'><div class=sqs-block-content><div"
        " class=sqs-html-content><p class=sqsrte-large>{}</p></div></div></div>",
        "<div class='sqs-block html-block'><div class=sqs-block-content><ul>{}</ul></div></div>",
    ),
    "webflow": (
        "<div class=page-wrapper><div class=main-wrapper>{}</div></div>",
        "<div class='section_feature overflow-hidden'><div class=padding-global><div"
        " class='container-large'><div class='w-layout-grid feature_grid'>{}</div></div></div>"
        "</div>",
        "<div class=margin-bottom><h2 class=heading-style-h2>{}</h2></div>",
        "<div class='text-rich-text w-richtext'><p>{}</p></div>",
        "<div class=w-richtext><ul role=list class=w-list>{}</ul></div>",
    ),
    "shopify": (
        "<main id=MainContent class='content-for-layout focus-none' role=main tabindex=-1>{}"
        "</main>",
        "<section class='shopify-section section'><div class='section-template--1-padding'><div"
        " class='page-width page-width--narrow'><div class='image-with-text__content'>{}</div>"
        "</div></div></section>",
        "<h2 class='image-with-text__heading inline-richtext h1'>{}</h2>",
        "<div class='image-with-text__text rte body'><p>{}</p></div>",
        "<div class='rte'><ul>{}</ul></div>",
    ),
    "hubspot": (
        "<div class='body-wrapper hs-content-id-1 hs-site-page'><main id=main-content"
        " class=body-container-wrapper><div class='container-fluid body-container'>{}</div></main>"
        "</div>",
        "<div class='row-fluid-wrapper dnd-section'><div class=row-fluid><div class='span12"
        " widget-span widget-type-cell dnd-column'><div class=row-fluid-wrapper><div"
        " class='row-fluid'>{}</div></div></div></div></div>",
        "<div class='span12 widget-span widget-type-custom_widget dnd-module'><div"
        " class='hs_cos_wrapper hs_cos_wrapper_widget widget-type-rich_text'><h2>{}</h2></div>"
        "</div>",
        "<div class='span12 widget-span dnd-module'><div class='hs_cos_wrapper"
        " hs_cos_wrapper_type_rich_text'><p>{}</p></div></div>",
        "<div class='hs_cos_wrapper widget-type-rich_text'><ul>{}</ul></div>",
    ),
    "drupal": (
        "<div class='dialog-off-canvas-main-canvas'><main role=main><div class='region"
        " region-content'><div class='node node--type-page node--view-mode-full'><div"
        " class=node__content>{}</div></div></div></main></div>",
        "<div class='layout layout--onecol'><div class='layout__region layout__region--content'>"
        "<div class='block block-layout-builder'><div class='paragraph paragraph--type--text"
        " paragraph--view-mode--default'>{}</div></div></div></div>",
        "<div class='field field--name-field-title field--label-hidden field__item'><h2>{}</h2>"
        "</div>",
        "<div class='clearfix text-formatted field field--name-body field--label-hidden"
        " field__item'><p>{}</p></div>",
        "<div class='field field--name-field-items field--label-hidden'><ul>{}</ul></div>",
    ),
    "tailwind": (
        "<div id=__next><div class='flex min-h-screen flex-col'><main class='flex-1'>{}</main>"
        "</div></div>",
        "<div class='relative isolate overflow-hidden bg-white py-24 sm:py-32'><div class='mx-auto"
        " max-w-7xl px-6 lg:px-8'><div class='mx-auto grid max-w-2xl grid-cols-1 hidden-xs:block'>"
        "{}</div></div></div>",
        "<div class='text-base font-semibold'><h2 class='text-3xl tracking-tight'>{}</h2></div>",
        "<div class='mt-6 text-lg leading-8 text-gray-600'>{}</div>",
        "<ul role=list class='mt-8 space-y-8 text-gray-600'>{}</ul>",
    ),
}
_HEADER = (
    "<a class='skip-link screen-reader-text' href='#content'>Skip to content</a><header"
    " class=site-header><a href=/ class=logo>Harbour Works</a><nav class=main-navigation><ul>"
    "<li><a href=/a>Home</a><li><a href=/b>Services</a><li><a href=/c>Prices</a><li><a"
    " href=/d>Contact us today</a></ul></nav></header>"
)
_FOOTER = (
    "<div class=related-posts><h3>You may also like</h3><ul><li><a href=/r1>Ten knots that every"
    " sailor knows by heart</a><li><a href=/r2>What the winter does to a hull</a></ul></div>"
    "<form class=newsletter-signup><label>Your address</label><input><button>Subscribe</button>"
    "</form><footer class=site-footer><p>© 2026 Harbour Works Ltd. All rights reserved.</p><ul>"
    "<li><a href=/p>Privacy policy</a><li><a href=/t>Terms of use</a></ul></footer><div"
    " class=cookie-banner><p>We use cookies to make this site better. You may accept or refuse"
    " them at any time in the settings of your browser.</p><button>Accept</button></div>"
)


def pages() -> Iterator[BuilderPage]:
    """Each builder with each kind of content."""
    for builder, (page, section, heading, paragraph, items) in _SHELLS.items():
        for kind in KINDS:
            sections = _sections(kind, Random(f"{builder} {kind}"))
            body, said = [], []
            for part in sections:
                inner = [heading.format(part.heading)]
                inner += [paragraph.format(p) for p in part.paragraphs]
                if part.items:
                    inner.append(items.format("".join(f"<li>{i}</li>" for i in part.items)))
                body.append(section.format("".join(inner)))
                said += [part.heading, *part.paragraphs, *part.items]
            markup = (
                f"<!doctype html><html lang=en><head><title>{sections[0].heading}</title></head>"
                f"<body>{_HEADER}{page.format(''.join(body))}{_FOOTER}</body></html>"
            )
            yield BuilderPage(builder, kind, markup, "\n".join(said))
