"""The tables that only a warehouse has: where a run belongs, and what registers say of nights, cells and attempts."""

from typing import Final

import pyarrow as pa

from fencepost.harness.verdict.fact_tables import DOUBLE, FLAG, LONG, RUN_ID, TEXT, TEXTS, FactTable, by_name, columns

#: Columns that say where a run belongs; the table `placed` has them for every run.
NIGHT: Final = "night"
SYSTEM: Final = "system"

PLACED: Final = FactTable(
    name="placed",
    row="a run: the night that it belongs to, and its cell there",
    columns=columns(
        (NIGHT, TEXT, "the campaign's id; of a single run its UTC date"),
        ("day", TEXT, "the UTC date of its start"),
        ("cell", TEXT, "the cell's id; null outside of campaigns"),
        ("attempt", TEXT, "the attempt, as in the table `attempts`; null outside of campaigns"),
        ("shard", LONG, "the shard that made it; null outside of campaigns"),
        ("core", TEXT, "the version and build of the native core that judged it for the warehouse"),
        ("variant", TEXT, "an own build, options and settings that make it no plain release; empty: none"),
        ("expected", TEXT, "`invalid` where its test expects a violation; empty otherwise"),
    ),
)

NIGHTS: Final = FactTable(
    name="nights",
    row="a night, or a shard of one",
    columns=columns(
        (NIGHT, TEXT, "its id"),
        ("shard", LONG, "which shard"),
        ("shards", LONG, "of how many"),
        ("campaign", TEXT, "the campaign's name"),
        ("started_at", TEXT, "UTC"),
        ("ended_at", TEXT, "UTC; empty while it runs, or where nobody saw its end"),
        ("state", TEXT, "`running`, `stopped`, `finished` or `interrupted`"),
        ("budget_s", DOUBLE, "its budget, seconds"),
        ("spent_s", DOUBLE, "what it took, seconds"),
        ("jobs", LONG, "clusters side by side"),
        ("seed", LONG, "its seed"),
        ("exit_code", LONG, "what it ended with, or would end with now"),
        ("sentence", TEXT, "its outcome in one sentence"),
        ("reasons", TEXTS, "why it is not green; empty where it is"),
        ("policy", TEXT, "the policy of a gate; null for a campaign"),
        ("candidate", TEXT, "what the gate tested; null for a campaign"),
        ("baseline", TEXT, "what it was compared with; null without one"),
        ("machine", TEXT, "the machine, as JSON"),
        ("folder", TEXT, "its folder"),
    ),
)

CELLS: Final = FactTable(
    name="cells",
    row="a cell of a night",
    columns=columns(
        (NIGHT, TEXT, "the night's id"),
        ("shard", LONG, "which shard ran it"),
        ("cell", TEXT, "its id, the digest of its plan"),
        ("name", TEXT, "its name in that campaign"),
        (SYSTEM, TEXT, "the system under test"),
        ("version", TEXT, "the release that its plan names; empty: the default"),
        ("workload", TEXT, "the workload"),
        ("nemesis", TEXT, "the faults as the plan words them"),
        ("required", FLAG, "whether a green night needs it"),
        ("canary", FLAG, "whether it must be invalid"),
        ("control", FLAG, "whether it tests what is known to be right, so that a violation is a false alarm"),
        ("caught", FLAG, "whether a canary showed its anomaly, and passed in no run; null for other cells"),
        ("run_class", TEXT, "its class over all its runs"),
        ("reason", TEXT, "why, in one line"),
        ("exposure", LONG, "how often the guarantee that was tested least was tested"),
    ),
)

ATTEMPTS: Final = FactTable(
    name="attempts",
    row="an attempt at a run of a cell, also one that never reported",
    columns=columns(
        (NIGHT, TEXT, "the night's id"),
        ("shard", LONG, "which shard made it"),
        ("cell", TEXT, "the cell's id"),
        ("run", LONG, "which run of the cell, from 1"),
        ("number", LONG, "which attempt at this run, from 1"),
        ("seed", LONG, "its seed"),
        ("began_at", TEXT, "UTC"),
        ("run_class", TEXT, "its class; null while it is in flight"),
        ("reason", TEXT, "why, in one line"),
        ("seconds", DOUBLE, "how long it took"),
        ("check_s", DOUBLE, "how long its checkers took; null where nobody measured it"),
        ("version", TEXT, "the release that ran"),
        ("fingerprints", TEXTS, "what it showed of what decides"),
        ("known", TEXTS, "those that known issues cover"),
        ("folder", TEXT, "where it keeps its files"),
        ("report", TEXT, "its page; empty without one"),
    ),
)

REQUIREMENTS: Final = FactTable(
    name="requirements",
    row="a requirement of a gate",
    columns=columns(
        (NIGHT, TEXT, "the gate's night"),
        ("number", LONG, "its place on the gate's page, from 0"),
        ("kind", TEXT, "`cell`, `guarantee`, `canary`, `budget`, `exception`, `build` or `shard`"),
        ("name", TEXT, "what it is about"),
        ("need", TEXT, "what is needed"),
        ("status", TEXT, "`met`, `elsewhere`, `excepted`, `missing` or `failed`"),
        ("reason", TEXT, "why, in one line"),
        ("runs", LONG, "runs that it rests on"),
        ("reports", TEXTS, "their pages, relative to the night's folder"),
    ),
)

#: Read from registers and from gate.json: they have no run of their own.
OF_NIGHTS: Final = by_name((NIGHTS, CELLS, ATTEMPTS, REQUIREMENTS))


def schema_of(table: FactTable) -> pa.Schema:
    """The schema of a table in a warehouse: with `run_id`, but for what is told of nights."""
    return table.schema if table.name in OF_NIGHTS else table.stored_schema


assert RUN_ID not in {column.name for table in OF_NIGHTS.values() for column in table.columns}
