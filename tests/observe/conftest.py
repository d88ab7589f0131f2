"""The small crawl written by hand that the control tests have too."""

from tests.control.conftest import crawl  # noqa: F401
