"""Which buckets a second round takes."""

from __future__ import annotations

from crawlkit.rules.frontier.overlap import buckets_beside
from hypothesis import given, strategies as st


def row(bucket: int, n: int, delay_s: float = 1.0, ips: tuple[str, ...] = (), domain: str = ""):
    return {
        "domain": domain or f"d{bucket}.test",
        "host_bucket": bucket,
        "n": n,
        "cost_s": n * delay_s,
        "ips": list(ips),
    }


def test_one_host_or_none_is_never_split():
    assert buckets_beside([]) == []
    assert buckets_beside([row(3, 100_000)]) == []
    assert buckets_beside([row(3, 50_000), row(3, 10, domain="other.test")]) == []


def test_hosts_that_end_together_are_not_split():
    assert buckets_beside([row(b, 300) for b in range(8)]) == []


def test_a_long_queue_is_alone_and_the_others_are_read_meanwhile():
    rows = [row(0, 1000), *(row(b, 300) for b in range(1, 8))]
    assert buckets_beside(rows) == [1, 2, 3, 4, 5, 6, 7]


def test_what_takes_longer_to_read_than_there_is_time_stays():
    """Bucket 1 ends 5 s before bucket 0: too late for its pages, while bucket 2 has time."""
    rows = [row(0, 1000), row(1, 995), row(2, 100_000, delay_s=0.005)]
    assert buckets_beside(rows) == [2]


def test_little_to_win_is_left():
    rows = [row(0, 1000), row(1, 700)]
    assert buckets_beside(rows) == []
    assert buckets_beside(rows, least_s=2.8) == [1]
    assert buckets_beside(rows, least_s=2.9) == []


def test_without_delays_there_is_nothing_to_win():
    assert buckets_beside([row(b, 5000 + b, delay_s=0.0) for b in range(8)], least_s=0.0) == []


def test_buckets_that_share_an_address_stay_together():
    rows = [row(0, 1000, ips=("10.0.0.1",)), row(1, 900, ips=("10.0.0.1",)), row(2, 900)]
    assert buckets_beside(rows) == [2]
    chain = [row(0, 1000, ips=("a",)), row(1, 900, ips=("a", "b")), row(2, 900, ips=("b",))]
    assert buckets_beside(chain) == []


ROWS = st.lists(
    st.builds(
        row,
        st.integers(0, 7),
        st.integers(1, 5000),
        st.sampled_from((0.0, 0.5, 1.0, 10.0)),
        st.lists(st.sampled_from("abcdef"), max_size=2).map(tuple),
        st.sampled_from([f"d{n}.test" for n in range(30)]),
    ),
    max_size=20,
)


@given(ROWS, st.floats(0, 10))
def test_the_first_round_keeps_the_longest_queue(rows, least_s):
    beside = buckets_beside(rows, least_s=least_s)
    there = {r["host_bucket"] for r in rows}
    assert set(beside) < there if beside else True
    if beside:
        kept = there - set(beside)
        longest = {b: max(r["cost_s"] for r in rows if r["host_bucket"] == b) for b in there}
        assert max(longest[b] for b in kept) > max(longest[b] for b in beside)
        ips = [
            {ip for r in rows if r["host_bucket"] in side for ip in r["ips"]}
            for side in (kept, beside)
        ]
        assert not ips[0] & ips[1]
        n = sum(r["n"] for r in rows if r["host_bucket"] in beside)
        assert n * 0.004 >= least_s
