"""The steps end in the canonical form, and name what changed."""

from __future__ import annotations

import pytest
from crawlkit.config import Urls
from crawlkit.outcomes import Refused
from crawlkit.rules.url.canonical import UrlPolicy, canonicalize
from crawlkit.rules.url.steps import rewriting_steps
from hypothesis import given, strategies as st


def test_each_rewriting_is_named():
    steps = rewriting_steps(
        "HTTP://WWW.A.example:80/x/../index.html?utm_source=q&b=2&a=1&PHPSESSID=1#frag",
        Urls(fold_www=True, fold_index=True),
    )
    assert [s.what.split(" (")[0] for s in steps] == [
        "as the URL Standard writes it",
        "fragment removed",
        "credentials, default port, escapes and order of parameters made uniform",
        "session parameters removed",
        "tracking parameters removed",
        "www. dropped",
        "index page dropped",
    ]
    assert steps[-1].url == "http://a.example/?a=1&b=2"


def test_a_canonical_url_has_no_step():
    assert rewriting_steps("http://a.example/?a=1", Urls()) == []


def test_no_url_no_steps():
    with pytest.raises(Refused):
        rewriting_steps("mailto:a@b.example", Urls())


@given(
    st.builds(
        Urls,
        fold_slash=st.booleans(),
        fold_www=st.booleans(),
        collapse_repeats=st.booleans(),
        remove_tracking=st.booleans(),
    ),
    st.text("abW.%2f/?&=#:~é ", max_size=40),
)
def test_the_last_step_is_the_canonical_form(urls, tail):
    url = f"http://www.a.example/{tail}"
    try:
        want = canonicalize(url, policy=UrlPolicy.of(urls))
    except Refused:
        return
    steps = rewriting_steps(url, urls)
    assert (steps[-1].url if steps else url) == want
    assert all(a.url != b.url for a, b in zip(steps, steps[1:]))
