"""Rounds, metrics and commands."""

from __future__ import annotations

from crawlkit.tables.schema import make_table

TABLES = (
    make_table(
        "rounds",
        "One row for each closed round.",
        "round_id",
        "round_id",
        """
round_id string | round
round_no int | number
state string | closed or abandoned
nominal_time timestamp | --now of the round
opened_at timestamp | real time
closed_at timestamp | real time
config_digest string | SHA-256 of the configuration, 16 hex digits
seed bigint | seed of what is random
buckets int | host buckets claimed
planned bigint | rows of the fetch list
""",
    ),
    make_table(
        "stages",
        "One row for each stage of a round.",
        "round_id stage",
        "round_id",
        """
round_id string | round
stage string | stage
started timestamp | real time
ended timestamp | real time
wall_s double | wall time, s
cpu_s double | CPU time of the driver's process tree, s
rows_in bigint | rows read
rows_out bigint | rows written
rejected bigint | rows refused, by reasons in counts
counts string | all counts (JSON)
""",
    ),
    make_table(
        "metrics",
        "Figures of a round.",
        "round_id name labels",
        "round_id",
        """
round_id string | round
name string | metric
labels string | labels (JSON)
value double | value
""",
    ),
    make_table(
        "commands",
        "Operator commands, in the order in which they were given; appended under a lock of their"
        " own, so that an operator never waits for a stage.",
        "command_id",
        "",
        """
command_id string | id; the same id is done once
at timestamp | time
verb string | the command: seeds, recrawl, hint, boost, block, pause ... (docs/api.md)
target string | URL, host, domain or round; of several URLs the first
arguments string | JSON; of a purge also what it removed
actor string | who
""",
        also="Written by the control API and the command line.",
    ),
)
