"""The fact tables: names, columns, types, meanings; those derived from one history, and those about the run as a whole.

Every moment is in nanoseconds since the run's zero; every length of time is in nanoseconds. `index`, `event`, `events`
and `evidence` are rows of the history.

A table has `run_id` before its own columns as soon as it is kept: rows of many runs then stand in one table. The
version is that of the tables' schema.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

#: Names a run in every row of every table.
RUN_ID: Final = "run_id"
#: Where the schema of a stored table says its version.
VERSION_KEY: Final = b"fencepost.table_version"

#: Arrow's own names of the types of columns.
LONG: Final = "int64"
TEXT: Final = "string"
FLAG: Final = "bool"
DOUBLE: Final = "double"
TEXTS: Final = "list<item: string>"
LONGS: Final = "list<item: int64>"


def _arrow(kind: str) -> Any:
    import pyarrow as pa

    return pa.list_(pa.type_for_alias(kind.partition(": ")[2].rstrip(">"))) if kind.startswith("list<") else kind


def masked(values: Any, is_null: Any = None, kind: str | None = None) -> Any:
    """Return the Arrow array of these values, with nulls where `is_null` says so."""
    import pyarrow as pa

    return pa.array(values, kind, mask=is_null)


class FactColumn(msgspec.Struct, frozen=True):
    """One column; `text` says in one line what it means, and what a null means."""

    name: str
    kind: str
    text: str


class FactTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table; `row` says what one row of it is. A change of its columns gives it another version."""

    name: str
    row: str
    columns: tuple[FactColumn, ...]
    version: int = 1

    @property
    def schema(self) -> Any:
        """The Arrow schema, without `run_id`."""
        import pyarrow as pa

        return pa.schema([pa.field(c.name, _arrow(c.kind)) for c in self.columns])

    @property
    def stored_schema(self) -> Any:
        """The Arrow schema as it is kept: with `run_id`, and the version in its metadata."""
        import pyarrow as pa

        fields = [pa.field(RUN_ID, TEXT), *self.schema]
        return pa.schema(fields, metadata={VERSION_KEY: str(self.version).encode()})

    def of_columns(self, columns: Mapping[str, Any]) -> Any:
        """The Arrow table of these arrays or lists, which must be all of its columns."""
        import pyarrow as pa

        return pa.table({c.name: pa.array(columns[c.name], _arrow(c.kind)) for c in self.columns}, schema=self.schema)

    def of(self, items: Sequence[Any], **given: Sequence[Any]) -> Any:
        """The Arrow table of these objects: what is not given is the attribute of a column's name."""
        return self.of_columns({c.name: given.get(c.name) or [getattr(i, c.name) for i in items] for c in self.columns})

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        """The Arrow table of these rows, each with all of its columns."""
        return self.of_columns({c.name: [row[c.name] for row in rows] for c in self.columns})

    def stored(self, table: Any, run_id: str) -> Any:
        """`table` with the run's id in each row."""
        import pyarrow as pa

        ids = pa.repeat(pa.scalar(run_id, TEXT), len(table))
        return pa.table([ids, *table.columns], schema=self.stored_schema)


class DerivedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that a leaf brings, and what derives it from a history and the facts of its run."""

    table: FactTable
    derive: Callable[[Any, Any], Any]


#: Tables by name.
FactTables = Mapping[str, Any]


def columns(*described: tuple[str, str, str]) -> tuple[FactColumn, ...]:
    """Columns from (name, type, meaning)."""
    return tuple(FactColumn(*one) for one in described)


def _table(name: str, row: str, *described: tuple[str, str, str], version: int = 1) -> FactTable:
    return FactTable(name=name, row=row, columns=columns(*described), version=version)


def by_name(tables: Iterable[FactTable]) -> dict[str, FactTable]:
    """The tables by their names."""
    return {table.name: table for table in tables}


_COUNTS: Final = (
    ("ok", LONG, "operations invoked in it that ended `ok`"),
    ("fail", LONG, "operations invoked in it that ended `fail`"),
    ("info", LONG, "operations invoked in it whose outcome is unknown"),
)
_GAP: Final = (
    ("longest_without_ok_ns", LONG, "the longest time in it in which no operation ended `ok`"),
    ("without_ok_from_ns", LONG, "the beginning of that time"),
)
_EPOCH_OF: Final = (
    ("subject", TEXT, "what the leader leads: `leader`, `controller`, or a topic partition such as `p0`"),
    ("node", TEXT, "the node"),
    ("incarnation", LONG, "the number of earlier starts of the node's server"),
)

OPERATIONS: Final = _table(
    "operations",
    "one operation: an invocation with its completion",
    ("invoke_index", LONG, "its invocation"),
    ("complete_index", LONG, "its completion; null when it never completed"),
    ("process", LONG, "the logical caller"),
    ("f", TEXT, "its function"),
    ("node", TEXT, "the node that was asked"),
    ("key", TEXT, "the key that it is about; null when it is about no key"),
    ("type", TEXT, "`ok`, `fail` or `info`"),
    ("invoked_ns", LONG, "when the request left"),
    ("completed_ns", LONG, "when the outcome was known; null for `info`"),
    ("ended_ns", LONG, "when the caller stopped waiting; null when it never did"),
    ("latency_ns", LONG, "from `invoked_ns` to `ended_ns`"),
    ("error", TEXT, "the row of the client's error table; null for `ok`"),
    ("position", LONG, "the store's position that the reply carries"),
    ("value_position", LONG, "the position of the write that made the value"),
    ("epoch", LONG, "the epoch that the reply is stamped with"),
    ("session", LONG, "the number of the session on the server"),
    ("phase", TEXT, "the phase in which it was invoked; null before the first phase"),
    ("fault_id", LONG, "the last fault that began before the invocation and was not yet healed then"),
)

CLAIMS: Final = _table(
    "claims",
    "one answer in which a node claims to lead",
    *_EPOCH_OF,
    ("index", LONG, "the answer"),
    ("epoch", LONG, "the epoch that it claims; null when that is not certain"),
    ("epoch_low", LONG, "the least epoch that it can claim"),
    ("asked_ns", LONG, "when the node was asked"),
    ("answered_ns", LONG, "when it answered"),
    ("lo_ns", LONG, "the first moment that the answer can speak of"),
    ("hi_ns", LONG, "the last moment that the answer can speak of"),
)

EPOCHS: Final = _table(
    "epochs",
    "one epoch, by the earliest proof that it had begun",
    ("subject", TEXT, "what is led"),
    ("epoch", LONG, "the epoch"),
    ("begun_ns", LONG, "by when it had certainly begun"),
    ("event", LONG, "what proves it"),
    ("how", TEXT, "the proof in words"),
)

REIGNS: Final = _table(
    "reigns",
    "the claims of one epoch by one incarnation of a node",
    *_EPOCH_OF,
    ("epoch", LONG, "the epoch"),
    ("first_ns", LONG, "the first moment at which it certainly led"),
    ("last_ns", LONG, "the last moment at which it certainly led"),
    ("over_ns", LONG, "the moment from which it certainly no longer led; null when unknown"),
    ("samples", LONG, "answers that claim the epoch"),
    ("superseded_by", LONG, "the higher epoch that is proven first; null when none is"),
    ("superseded_ns", LONG, "the moment by which that epoch had certainly begun"),
    ("claimed_samples", LONG, "answers that certainly claim the old epoch after that moment"),
)

OVERLAPS: Final = _table(
    "overlaps",
    "a time in which two or more nodes certainly led at once",
    ("subject", TEXT, "what is led"),
    ("nodes", TEXTS, "the nodes"),
    ("epochs", LONGS, "the epoch of each of them"),
    ("from_ns", LONG, "its beginning"),
    ("to_ns", LONG, "its end"),
    ("running_ns", LONG, "the part of it in which none of the nodes was proven to stand still"),
)

ZOMBIE_EPISODES: Final = _table(
    "zombie_episodes",
    "a superseded leader that went on: it claimed to lead, or clients sent it operations",
    *_EPOCH_OF,
    ("epoch", LONG, "the epoch that it led"),
    ("superseded_by", LONG, "the higher epoch that is proven first"),
    ("superseded_ns", LONG, "by when that epoch had begun"),
    ("claimed_from_ns", LONG, "the first moment after that for which it certainly claimed to lead; null if none"),
    ("claimed_to_ns", LONG, "the last such moment"),
    ("running_ns", LONG, "from `superseded_ns` to `claimed_to_ns`, less the time in which it stood still; 0 if none"),
    ("claims", LONG, "answers that certainly claim the old epoch"),
    ("asked", LONG, "operations sent to it while it was superseded"),
    ("reached", LONG, "of these, operations that it certainly received"),
    ("served", LONG, "operations that it answered as a superseded leader"),
    ("fenced", LONG, "operations that it refused because of its epoch or role, without effect"),
    ("unknown", LONG, "operations of unknown outcome"),
    ("acted", LONG, "operations by which it broke a rule: stale answers, and changes that it carried out"),
    ("anomalies", TEXTS, "the anomalies of these operations, each once"),
    ("evidence", LONGS, "the proof of the new epoch, the last claim, and the operations by which it acted"),
)

STALE_ANSWERS: Final = _table(
    "stale_answers",
    "an answered read that lacks a write that was acknowledged before it was invoked",
    ("index", LONG, "the answer"),
    ("node", TEXT, "the node that answered"),
    ("process", LONG, "the caller"),
    ("key", TEXT, "the key"),
    ("invoked_ns", LONG, "when the read was invoked"),
    ("write_index", LONG, "the newest write that it lacks"),
    ("write_node", TEXT, "the node that acknowledged that write"),
    ("missing", LONG, "acknowledged writes that it lacks"),
    ("late_ns", LONG, "the time from the acknowledgement of the first of these until the read was invoked"),
    ("superseded_epoch", LONG, "the epoch of the superseded leader that answered; null when none did"),
)

FAULTS: Final = _table(
    "faults",
    "one fault that was tried",
    ("fault_id", LONG, "its number"),
    ("fault", TEXT, "its kind"),
    ("target", TEXT, "its target as the plan names it"),
    ("nodes", TEXTS, "the nodes that it acted on"),
    ("severed", TEXTS, "the links that it cut, as `n1>n2`"),
    ("outcome", TEXT, "`installed`, `skipped` or `indeterminate`"),
    ("began_ns", LONG, "the first moment at which it may have been in force"),
    ("certain_from_ns", LONG, "the first moment at which it was certainly in force; null without proof"),
    ("certain_to_ns", LONG, "the last moment at which it was certainly in force; null when it was never healed"),
    ("ended_ns", LONG, "the moment by which it was certainly healed; null when it was never healed"),
    ("leader", TEXT, "the leader when it began; null when unknown"),
    ("epoch", LONG, "the epoch when it began"),
    ("proof", TEXT, "what proved it"),
    ("why", TEXT, "the reason why it was skipped or is in doubt"),
    ("details", TEXT, "the figures of the fault, as JSON"),
    ("stops", TEXT, "whether servers stood still: `certain`, `possible` or `no`"),
    ("cuts", FLAG, "whether links carried no packets"),
    ("holds", FLAG, "whether threads of a running server were held"),
    ("delays", FLAG, "whether links were slow or lossy"),
    ("skews", FLAG, "whether clocks showed a wrong time"),
    ("changes_members", FLAG, "whether members were removed and added"),
    ("ends", FLAG, "whether servers could end by themselves"),
    ("disk", TEXT, "what it left on disks: `kept`, `unsynced` (only what was synced) or `damaged`"),
    ("events", LONGS, "its events"),
    version=2,
)

STOPS: Final = _table(
    "stops",
    "a time in which a node was proven to stand still or to be dead",
    ("node", TEXT, "the node"),
    ("from_ns", LONG, "its beginning"),
    ("to_ns", LONG, "its end"),
)

CUTS: Final = _table(
    "cuts",
    "a link that one fault certainly cut",
    ("fault_id", LONG, "the fault"),
    ("source", TEXT, "the link's source; `client` is the harness"),
    ("target", TEXT, "the link's target"),
    ("from_ns", LONG, "the first moment at which it was certainly cut"),
    ("to_ns", LONG, "the last moment at which it was certainly cut; the history's end when it was never healed"),
)

QUORUM_LOSSES: Final = _table(
    "quorum_losses",
    "a time in which there was provably no majority of voters that ran and all reached each other",
    ("quorum", TEXT, "`star`: one voter still reached a majority; `none`: no voter did"),
    ("from_ns", LONG, "its beginning"),
    ("to_ns", LONG, "its end"),
    ("fault_ids", LONGS, "the faults that caused it"),
    ("absent", TEXTS, "the voters that did not run at some time of it"),
)

SERVICE: Final = _table(
    "service",
    "what clients got from one node, or from all nodes, in one segment; faults and phases bound the segments",
    ("node", TEXT, "the node; null for all nodes together"),
    ("phase", TEXT, "the phase that contains the segment; null before the first phase"),
    ("fault_ids", LONGS, "the faults that may have been in force in it"),
    ("from_ns", LONG, "its beginning"),
    ("to_ns", LONG, "its end, which is not part of it"),
    *_COUNTS,
    ("served", LONG, "operations that ended `ok` in it"),
    *_GAP,
)

PHASES: Final = _table(
    "phases",
    "one phase of the run",
    ("phase", TEXT, "its name"),
    ("from_ns", LONG, "its beginning"),
    ("to_ns", LONG, "its end, which is not part of it"),
    *_COUNTS,
    *_GAP,
)

RECOVERY: Final = _table(
    "recovery",
    "how clients and the leadership fared during and after one fault",
    ("fault_id", LONG, "the fault"),
    ("node", TEXT, "the node; null for all nodes together"),
    (
        "new_epoch",
        LONG,
        "the first new epoch before the next fault began; null for a single node, or when there was none",
    ),
    ("new_leader_after_ns", LONG, "from the fault's beginning until that epoch had certainly begun"),
    ("recovered_after_ns", LONG, "from the end of the healing to the next `ok`; null when there was none"),
    *_COUNTS,
    *_GAP,
    ("latency_ns_p50", LONG, "the median latency of operations invoked in it that ended `ok`"),
    ("latency_ns_p99", LONG, "the 99th percentile of the latency of these operations"),
)

STALLS: Final = _table(
    "stalls",
    "a time in which the harness or its machine was so late that its times are not reliable",
    ("what", TEXT, "what stalled"),
    ("from_ns", LONG, "its beginning"),
    ("to_ns", LONG, "its end"),
    ("length_ns", LONG, "how late it was, or how long tasks waited for a processor"),
)

SERVER_ENDS: Final = _table(
    "server_ends",
    "a server that ended although neither the harness ended it nor a fault explains it",
    ("node", TEXT, "the node"),
    ("incarnation", LONG, "the number of earlier starts of the node's server"),
    ("at_ns", LONG, "when its end was seen"),
    ("exit_status", LONG, "its exit status, negative for a signal; null when unknown"),
    ("signal", TEXT, "the signal that ended it; null for another end"),
    ("started_ns", LONG, "when the node was started again; null when it never was"),
    ("served_ns", LONG, "when the node served again; null when it never did"),
    ("away_ns", LONG, "from its end until the node served again, or until the end of the history"),
    ("event", LONG, "the row of the history"),
)

CATCH_UPS: Final = _table(
    "catch_ups",
    "a node that caught up with the others, by its own log, once the main phase had begun",
    ("node", TEXT, "the node"),
    ("incarnation", LONG, "how often it was started before"),
    ("how", TEXT, "`difference`, `snapshot`, `truncation`, `loaded` or `saved`"),
    ("read_ns", LONG, "when the line was read"),
    ("event", LONG, "the row of the history"),
)

MECHANISMS: Final = _table(
    "mechanisms",
    "one mechanism that runs of the system can meet, and how often this one met it from the main phase on",
    ("mechanism", TEXT, "its name, as the system declares it"),
    ("count", LONG, "how often it was met; 0: never"),
    ("event", LONG, "the first row that shows it; null when it was never met"),
    ("events", LONGS, "one row for each time"),
)

#: Every table of the core that is derived from a history.
DERIVED: Final = (
    OPERATIONS,
    CLAIMS,
    EPOCHS,
    REIGNS,
    OVERLAPS,
    ZOMBIE_EPISODES,
    STALE_ANSWERS,
    FAULTS,
    STOPS,
    CUTS,
    QUORUM_LOSSES,
    SERVICE,
    PHASES,
    RECOVERY,
    STALLS,
    SERVER_ENDS,
    CATCH_UPS,
    MECHANISMS,
)


RUN: Final = _table(
    "run",
    "the run",
    ("folder", TEXT, "the name of its folder when the facts were derived"),
    ("started_at", TEXT, "the wall-clock time of its start, UTC"),
    ("system", TEXT, "the system under test"),
    ("version", TEXT, "the release that ran, as the system itself reported it"),
    ("digest", TEXT, "SHA-256 over the digests of the binaries; null when none are known"),
    ("workload", TEXT, "the workload"),
    ("nemesis", TEXT, "the faults, as the plan writes them"),
    ("faults", TEXTS, "each of these faults"),
    ("options", TEXT, "the workload's options, as JSON"),
    ("system_options", TEXT, "the system's options, as JSON"),
    ("settings", TEXT, "the servers' own settings, as JSON"),
    ("runtime", TEXT, "the runtime that ran the nodes"),
    ("nodes", TEXTS, "the nodes"),
    ("machine", TEXT, "the machine, as JSON"),
    ("seed", LONG, "the seed"),
    ("length_ns", LONG, "the time of the last event"),
    ("planned_ns", LONG, "the planned length of the main phase"),
    ("played_ns", LONG, "the actual length of the main phase"),
    ("cut_short", TEXT, "where the run was cut short, and what stopped it; null for a whole run"),
    ("events", LONG, "rows of its history"),
    ("operations", LONG, "operations that were invoked"),
    ("outcome", TEXT, "`valid`, `invalid` or `unknown`"),
    ("exit_class", LONG, "the exit code of a command that judges only this run"),
    ("headline", TEXT, "the outcome in one sentence"),
)

VERDICTS: Final = _table(
    "verdicts",
    "the verdict of one checker on one guarantee",
    ("checker", TEXT, "the checker"),
    ("guarantee", TEXT, "the guarantee"),
    ("subject", TEXT, "the subject whose leaders the verdict is about; null for a guarantee without leaders"),
    ("validity", TEXT, "`valid`, `invalid` or `unknown`"),
    ("cause", TEXT, "why it is `unknown`; null otherwise"),
    ("reason", TEXT, "the reason of the verdict in one sentence"),
    ("decides", FLAG, "whether this verdict keeps the run from being valid"),
)

ANOMALIES: Final = _table(
    "anomalies",
    "one kind of anomaly, summed over all checkers that report it",
    ("guarantee", TEXT, "the guarantee that it breaks"),
    ("anomaly", TEXT, "its name"),
    ("count", LONG, "how often it occurred"),
    ("decides", FLAG, "whether the guarantee decides the run"),
    ("fingerprint", TEXT, "a text by which the same anomaly is recognised in another run"),
    ("fingerprints", TEXTS, "the fingerprints of all its witnesses"),
)

EXPOSURES: Final = _table(
    "exposures",
    "how often a run tested one guarantee, as one checker counted it",
    ("guarantee", TEXT, "the guarantee"),
    ("checker", TEXT, "the checker that counted"),
    ("exposure", LONG, "how often the guarantee was tested; null when the checker does not count it"),
    ("exposure_of", TEXT, "what the checker counted"),
    ("exposure_min", LONG, "how many tests the plan demands"),
)

RULES: Final = _table(
    "rules",
    "one rule of a guarantee, and how often the run could have broken it",
    ("guarantee", TEXT, "the guarantee"),
    ("checker", TEXT, "the checker that has the rule"),
    ("rule", TEXT, "the rule, named by the anomaly that breaks it"),
    ("chances", LONG, "how often a wrong answer or effect would have broken it"),
    ("lacks", TEXT, "what the run lacked to test the rule; empty when it had a chance"),
)

GUARANTEES: Final = _table(
    "guarantees",
    "one judged guarantee, over all checkers",
    ("guarantee", TEXT, "its name"),
    ("validity", TEXT, "`valid`, `invalid` or `unknown`"),
    ("standing", TEXT, "`promised`, `relied-upon` or `measured`; null when the system says nothing about it"),
    ("source", TEXT, "where the maker promises it"),
    ("known_issue", TEXT, "the issue in which the maker disclaims it"),
    ("unmet", TEXT, "the condition of the promise that the run did not keep to, and by which faults; null without"),
    ("required", FLAG, "whether the plan requires it"),
    ("primary", FLAG, "whether it is the guarantee of the run's reads"),
    ("decides", FLAG, "whether a violation makes the run `invalid`"),
    version=2,
)

#: The tables about a run and its verdicts.
OF_RUN: Final = (RUN, VERDICTS, ANOMALIES, EXPOSURES, RULES, GUARANTEES)
