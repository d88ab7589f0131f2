"""Rounds side by side in any order: whatever was written to the log is in the base or waits for the
next fold. A plain model, without Spark, of what `update` does.
"""

from __future__ import annotations

from collections import Counter

from crawlkit.stages.fold import all_in, fold_limit, merge_summaries
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

DUE = dict.fromkeys(f"next_due_{c}" for c in range(4))
BUCKETS = st.lists(st.integers(0, 3), min_size=1, max_size=3)
Row = tuple[int, int, int]  # bucket, number of the round, which one


class Rounds(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[Row] = []
        self.base: set[Row] = set()
        self.written: set[Row] = set()
        self.buckets: dict[int, dict] = {}
        self.last, self.open, self.parsed, self.updated = 0, [], set(), set()

    def live(self, again=None) -> list[Row]:
        """What a reader that opens only files with a row above the least number gets."""
        above = fold_limit((b["folded_through"] for b in self.buckets.values()), again)

        def waits(bucket, no):
            through = self.buckets.get(bucket, {}).get("folded_through")
            return (above is None or no > above) and (
                through is None or no > min(through, again - 1 if again else through)
            )

        return [row for row in self.log if waits(*row[:2])]

    def write(self, no, buckets) -> None:
        rows = [(bucket, no, len(self.written) + n) for n, bucket in enumerate(buckets)]
        self.log += rows
        self.written.update(rows)

    def a_round(self, data, of):
        return data.draw(st.sampled_from(sorted(of)))

    @rule()
    def opens(self):
        if len(self.open) < 4:
            self.last += 1
            self.open.append(self.last)

    @precondition(lambda self: set(self.open) - self.parsed)
    @rule(data=st.data(), buckets=BUCKETS)
    def injects(self, data, buckets):
        self.write(self.a_round(data, set(self.open) - self.parsed), buckets)

    @precondition(lambda self: set(self.open) - self.updated)
    @rule(data=st.data(), buckets=BUCKETS)
    def parses(self, data, buckets):
        no = self.a_round(data, set(self.open) - self.updated)
        self.write(no, buckets)
        self.parsed.add(no)

    @precondition(lambda self: self.parsed & set(self.open))
    @rule(data=st.data(), buckets=BUCKETS, share=st.integers(1, 4), dies=st.booleans())
    def updates(self, data, buckets, share, dies):
        """Also once more, and after a parse that found more.

        share: how many buckets are folded at most; dies: between the base and its summary.
        """
        no = self.a_round(data, self.parsed & set(self.open))
        if not dies:
            self.write(no, buckets)
        low = all_in(no, (o for o in self.open if o != no))
        live = self.live(again=no)
        seen = [
            {"host_bucket": b, "log_rows": n, **DUE}
            for b, n in sorted(Counter(b for b, _, _ in live).items())
        ]
        fold = {r["host_bucket"] for r in data.draw(st.permutations(seen))[:share]}
        self.base.update(row for row in live if row[0] in fold)
        if not dies:
            fresh = {
                b: {"host_bucket": b, "rows": 1, "log_rows": 0, "folded_through": low, **DUE}
                for b in fold
            }
            self.buckets = merge_summaries(
                self.buckets,
                fresh,
                [r for r in seen if r["host_bucket"] not in fold],
                low,
                again=no,
            )
            self.updated.add(no)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def ends(self, data):
        """Closed after its update, or given up at any time."""
        self.open.remove(self.a_round(data, self.open))

    @rule()
    def drops_folded_rows(self):
        """`maintain`."""
        through = min(
            [no - 1 for _, no, _ in self.live()] + [no - 1 for no in self.open], default=self.last
        )
        self.log = [row for row in self.log if row[1] > through]

    @invariant()
    def no_row_is_lost(self):
        assert self.written <= self.base | set(self.live())


Rounds.TestCase.settings = settings(deadline=None, stateful_step_count=40)
TestRounds = Rounds.TestCase
