"""schemathesis against the API's own OpenAPI: no request makes a server error, and every answer is
as documented.
"""

from __future__ import annotations

import contextlib
import os

import pytest
from crawlkit.control.app import make_app
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from tests.control.smallcrawl import NOW, fill, make_crawl

pytestmark = pytest.mark.waits

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
TOKEN = "0123456789abcdef-token"
EXAMPLES = int(os.environ.get("CRAWLKIT_SCHEMA_EXAMPLES", "3"))
MODES = list(schemathesis.GenerationMode)


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    crawl = make_crawl(tmp_path_factory.mktemp("crawl"))
    fill(crawl)
    crawl.open_round(NOW)
    return schemathesis.openapi.from_asgi("/openapi.json", make_app(crawl.data, crawl.cfg, TOKEN))


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name.lower())
def test_answers_are_as_documented(schema, mode):
    operations = [o.ok() for o in schema.get_all_operations()]
    assert len(operations) >= 24
    for operation in operations:

        @given(operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def answered(case):
            # what URLs and hosts there are is more than a schema can say: 400 is a right answer too
            case.call_and_validate(
                headers={"Authorization": f"Bearer {TOKEN}"},
                excluded_checks=[schemathesis.checks.CHECKS.get_one("positive_data_acceptance")],
            )

        with contextlib.suppress(Unsatisfiable):  # nothing can be given wrong
            answered()
