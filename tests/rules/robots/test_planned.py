"""Which domains go into one slot because the robots.txt of one leads to the other."""

from __future__ import annotations

import pytest
from crawlkit.rules.frontier.slots import assign_slots
from crawlkit.rules.robots.planned import Lead, find_leads, join_leads
from crawlkit.rules.url.domains import host_bucket


def domain(name: str, n: int = 1, bucket: int = 0) -> dict:
    return {"domain": name, "host_bucket": bucket, "n": n, "cost_s": float(n)}


def lead(asking: str, target: str, bucket: int = 0) -> Lead:
    return Lead(asking, f"http://{target}", target, target, bucket)


def test_leads_name_host_domain_and_bucket_once():
    rows = [
        {"domain": "a.example", "leads_to": ["https://www.b.test:8443", "http://c.test"]},
        {"domain": "a.example", "leads_to": ["http://c.test"]},
    ]
    b, c = host_bucket("b.test", 64), host_bucket("c.test", 64)
    found = [
        Lead("a.example", "http://c.test", "c.test", "c.test", c),
        Lead("a.example", "https://www.b.test:8443", "www.b.test", "b.test", b),
    ]
    assert find_leads(rows, 64, ()) == found
    assert find_leads(rows, 64, {c}) == found[1:]
    assert find_leads([], 64, ()) == []


@pytest.mark.parametrize(
    ("leads", "together"),
    [
        ([lead("a.example", "b.example")], [{"a.example", "b.example"}]),
        ([lead("a.example", "far.test", 9)], [{"a.example", "far.test"}]),
        (
            [lead("a.example", "far.test", 9), lead("b.example", "far.test", 9)],
            [{"a.example", "b.example", "far.test"}],
        ),
        (
            [lead("a.example", "b.example"), lead("b.example", "c.example")],
            [{"a.example", "b.example", "c.example"}],
        ),
        ([lead("gone.example", "far.test", 9)], []),
    ],
)
def test_a_domain_and_where_it_leads_go_together(leads, together):
    rows = [domain(f"{name}.example", n) for n, name in enumerate("abcd", 1)]
    joined = join_leads(rows, {"d.example": ["192.0.2.1"]}, leads)
    slots, _ = assign_slots(joined, 20, 0.9)
    groups = {}
    for name, slot in slots.items():
        groups.setdefault(slot, set()).add(name)
    assert [g for g in groups.values() if len(g) > 1] == together
    assert {r["domain"]: r["ips"] for r in joined}["d.example"] == ["192.0.2.1"]


def test_a_target_keeps_to_the_hosts_at_its_own_address():
    ips = {"far.test": ["192.0.2.7"], "b.example": ["192.0.2.7"]}
    rows = [domain("a.example"), domain("b.example"), domain("c.example")]
    slots, _ = assign_slots(join_leads(rows, ips, [lead("a.example", "far.test", 9)]), 20, 0.9)
    assert slots["a.example"] == slots["b.example"] == slots["far.test"] != slots["c.example"]
