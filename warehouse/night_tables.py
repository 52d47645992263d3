"""The tables that only a warehouse has: where a run belongs, and what registers say of nights, cells and attempts."""

from typing import Final

import msgspec
import pyarrow as pa

from fencepost.harness.judging.run_facts import stored_tables
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


#: Every table of facts that a warehouse keeps, by name.
STORED: Final = {**stored_tables(), PLACED.name: PLACED, **OF_NIGHTS}

#: A verdict that differs from the stored one: of one guarantee, or of the whole run where `guarantee` is null.
_CHANGE: Final = pa.struct([("guarantee", TEXT), ("before", TEXT), ("after", TEXT)])
#: One row for each run that an add looked at; `error` says why it could not be judged, and is null otherwise.
REBUILT: Final = pa.schema(
    [
        (RUN_ID, TEXT),
        ("folder", TEXT),
        (NIGHT, TEXT),
        (SYSTEM, TEXT),
        ("outcome", TEXT),
        ("length_ns", LONG),
        ("error", TEXT),
        ("changes", pa.list_(_CHANGE)),
    ]
)
REBUILT_NAME: Final = "rebuilt"

#: Columns that every kept row has beside the documented ones: the add that brought it, and for rows of nights the shard
#: and how many records of its register the add had read. `rebuilt` says when its add began to commit.
ADDED: Final = "added"
SHARD: Final = "shard"
RECORDS: Final = "records"
AT: Final = "at"


class Layout(msgspec.Struct, frozen=True):
    """How a table is kept: the columns of its rows, and those of them by which its files are parted."""

    schema: pa.Schema
    parted_by: tuple[str, ...]
    version: int

    @property
    def in_files(self) -> pa.Schema:
        """The columns that stand in the files: the others are said by a file's folder."""
        return pa.schema([field for field in self.schema if field.name not in self.parted_by])


def schema_of(table: FactTable) -> pa.Schema:
    """The documented columns of a table in a warehouse: with `run_id`, but for what is told of nights."""
    return table.schema if table.name in OF_NIGHTS else table.stored_schema


def layout(name: str) -> Layout:
    """How the table of this name is kept."""
    if name == REBUILT_NAME:
        return Layout(pa.schema([*REBUILT, (ADDED, TEXT), (AT, TEXT)]), (), 1)
    table = STORED[name]
    parted_by = (NIGHT,) if name in OF_NIGHTS else (NIGHT, SYSTEM)
    more = {SHARD: LONG, RECORDS: LONG, ADDED: TEXT} if name in OF_NIGHTS else {ADDED: TEXT}
    own = [field for field in schema_of(table) if field.name not in parted_by]
    names = {field.name for field in own}
    fields = [*own, *((key, kind) for key, kind in more.items() if key not in names)]
    return Layout(pa.schema([*fields, *((key, TEXT) for key in parted_by)]), parted_by, table.version)


assert RUN_ID not in {column.name for table in OF_NIGHTS.values() for column in table.columns}
