"""The audit of a fetch log (REQUIREMENTS D10)."""

from __future__ import annotations

import pytest
from crawlkit.rules.politeness.pacing_audit import Gap, Sent, closest, violations


def kinds(*rows: Sent, **floors: float) -> list[str]:
    return [v.kind for v in violations(rows, **floors)]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(0, 0.2), (1.2, 1.4), (2.4, 2.6)], 0),
        ([(0, 0.2), (0.9, 1.0)], 1),
        ([(0, 5), (2, 3)], 1),
        ([(0, 5), (2, 3), (4, 4.5)], 2),  # the first is still open
        ([(0, 5), (1, 1.5), (5.5, 6)], 2),  # measured from the latest end
        ([(2.4, 2.6), (0, 0.2), (1.2, 1.4)], 0),  # any order of rows
        ([(0, 0), (0.9995, 1)], 0),  # within the tolerance of a millisecond
        ([(0, 0), (0, 0)], 1),
        ([], 0),
    ],
)
def test_gaps_of_one_host(times, expected):
    assert kinds(*(Sent("a", s, e, 1.0) for s, e in times)) == ["host"] * expected


def test_hosts_are_independent_unless_they_share_domain_or_address():
    rows = [
        Sent("a.x", 0, 0.1, 1.0, "x", "192.0.2.1"),
        Sent("b.x", 0.2, 0.3, 1.0, "x", "192.0.2.2"),
        Sent("c.y", 0.4, 0.5, 1.0, "y", "192.0.2.1"),
    ]
    assert kinds(*rows) == []
    assert kinds(*rows, domain_delay_s=0.5) == ["domain"]
    assert kinds(*rows, ip_delay_s=0.5) == ["address"]


def test_negotiated_rates_are_no_violation():
    rows = [Sent("a", t, t, 0.1, "a", "192.0.2.1") for t in (0, 0.1, 0.2)]
    assert kinds(*rows, domain_delay_s=0.5, ip_delay_s=0.5) == []
    twice = [Sent("a", 0, 1, 0.0, parallel=2), Sent("a", 0.5, 1.5, 0.0, parallel=2)]
    assert kinds(*twice) == []
    assert kinds(*twice, Sent("a", 0.6, 1, 0.0, parallel=2)) == ["host"]


def test_disallowed_fetches_are_named():
    found = violations([Sent("a", 0, 1, 1.0, allowed=False, url="http://a/private")])
    assert [(v.kind, v.url) for v in found] == [("disallowed", "http://a/private")]


def test_each_request_has_the_floors_of_its_round():
    rows = [
        Sent("a.x", 0, 0.1, 1.0, "x", "192.0.2.1", floors_s=(0.05, 0.05)),
        Sent("b.x", 0.2, 0.3, 1.0, "x", "192.0.2.1", floors_s=(0.05, 0.05)),
    ]
    assert kinds(*rows, domain_delay_s=0.5, ip_delay_s=0.5) == []
    assert kinds(*(r._replace(floors_s=(0.5, 0.5)) for r in rows)) == ["domain", "address"]
    assert kinds(*(r._replace(floors_s=(0.0, 0.5)) for r in rows)) == ["address"]


def test_the_closest_request_is_that_with_the_least_beyond_its_delay():
    rows = [
        Sent("a", 0, 1, 1.0, url="a1"),
        Sent("a", 3, 4, 1.0, url="a2"),  # 2 s where 1 s was ordered
        Sent("b", 0, 2, 5.0, url="b1"),
        Sent("b", 7.5, 8, 5.0, url="b2"),  # 5.5 s where 5 s were ordered
        Sent("c", 0, 1, 1.0, parallel=2, url="c1"),
        Sent("c", 0.5, 2, 1.0, parallel=2, url="c2"),  # allowed beside each other
    ]
    assert closest(rows) == Gap("b", "b2", 5.5, 5.0)
    assert closest([*rows, Sent("a", 3.5, 5, 1.0, url="a3")]) == Gap("a", "a3", -0.5, 1.0)
    assert closest(rows[:1]) is None
