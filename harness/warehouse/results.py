"""What the pipeline returns: plain rows, ready for `verdict.json` and the report. Times are ns since the run's zero."""

import msgspec


class FunctionRow(msgspec.Struct, frozen=True, kw_only=True):
    """Operations of one `f` by outcome; latencies (from invocation to completion) of those that ended `ok`."""

    f: str
    ok: int
    fail: int
    info: int
    latency_ns_p50: int | None
    latency_ns_p95: int | None
    latency_ns_p99: int | None
    latency_ns_max: int | None


class BucketRow(msgspec.Struct, frozen=True, kw_only=True):
    """The same over time: what was invoked in [from_ns, from_ns + Analysis.bucket_ns). Empty buckets are left out."""

    from_ns: int
    ok: int
    fail: int
    info: int
    latency_ns_p50: int | None
    latency_ns_p99: int | None
    latency_ns_max: int | None


class ErrorRow(msgspec.Struct, frozen=True, kw_only=True):
    """How often operations `f` ended `type` with this error."""

    f: str
    type: str
    error: str
    count: int


class StaleReadsRow(msgspec.Struct, frozen=True, kw_only=True):
    """Reads of `key` from `node` that returned less than was acknowledged when they were invoked.

    `overdue_ns_max`: the longest that the newest value had been known by then; `first_index`: the invocation.
    """

    node: str
    key: str
    count: int
    overdue_ns_max: int
    first_index: int


class RegressionRow(msgspec.Struct, frozen=True, kw_only=True):
    """Replies that went back behind what the same process was shown before.

    `of` is "value" (an older value of a key) or "session" (a smaller position in one session).
    """

    process: int
    node: str
    of: str
    count: int
    first_index: int


class ReignRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of claims "I lead" of one epoch by one incarnation of a node.

    It led certainly in [certain_from_ns, certain_to_ns] when that is not empty, possibly in [from_ns, to_ns].
    `superseded_ns`: when a later epoch had certainly begun. `claimed_after_ns`: for how long after that the node
    certainly still claimed (0: not at all). `exact`: whether the epoch is known, or
    only bounded from below; then neither is judged.
    """

    subject: str
    node: str
    incarnation: int
    epoch: int | None
    exact: bool
    from_ns: int
    certain_from_ns: int
    certain_to_ns: int
    to_ns: int
    samples: int
    superseded_ns: int | None
    claimed_after_ns: int


class OverlapRow(msgspec.Struct, frozen=True, kw_only=True):
    """Two leaders at once, certainly: `node` still claimed `epoch` in [from_ns, to_ns], after `by_epoch` had begun.

    `by_nodes` are the nodes that claimed `by_epoch` (none: it is known from operations alone).
    """

    subject: str
    node: str
    epoch: int
    by_nodes: tuple[str, ...]
    by_epoch: int
    from_ns: int
    to_ns: int


class SupersededRow(msgspec.Struct, frozen=True, kw_only=True):
    """Operations that a superseded leader was sent: `served` (ok), `refused` (fail), `unknown` (info).

    `first_indexes` are the invocations of the first few that were served.
    """

    node: str
    epoch: int
    served: int
    refused: int
    unknown: int
    first_indexes: tuple[int, ...]


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """What clients and leadership went through in and after one fault, [began_ns, ended_ns) (None: never healed).

    `new_leader_after_ns`: from `began_ns` to the first certain begin of an epoch later than any begun before; None if
    there was none before the next fault began. `longest_without_ok_ns`: the longest time inside the fault in which no
    operation ended `ok`, on any node, beginning at `without_ok_from_ns`. `recovered_after_ns`: from the heal's end to
    the next `ok` of anyone, and by node; a node without one is absent. `ok`, `fail`, `info`: operations invoked inside.
    """

    fault_id: int
    fault: str
    target: str
    nodes: tuple[str, ...]
    outcome: str
    began_ns: int
    ended_ns: int | None
    new_epoch: int | None
    new_leader_after_ns: int | None
    longest_without_ok_ns: int
    without_ok_from_ns: int
    recovered_after_ns: int | None
    recovered_after_ns_by_node: dict[str, int]
    ok: int
    fail: int
    info: int


class PhaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """Operations invoked in one phase. `availability` is the share that ended `ok`; None when there were none."""

    phase: str
    from_ns: int
    to_ns: int
    ok: int
    fail: int
    info: int
    availability: float | None
    longest_without_ok_ns: int
    without_ok_from_ns: int


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the pipeline says about one history.

    Long tables hold their worst rows only: `stale_reads` and `regressions` are the totals, the tables beside them at
    most `pipeline.ROWS_MAX` rows, most frequent first.
    """

    end_ns: int
    bucket_ns: int
    functions: tuple[FunctionRow, ...]
    errors: tuple[ErrorRow, ...]
    buckets: tuple[BucketRow, ...]
    stale_reads: int
    stale_reads_by_node: dict[str, int]
    stale_reads_worst: tuple[StaleReadsRow, ...]
    regressions: dict[str, int]
    regressions_worst: tuple[RegressionRow, ...]
    reigns: tuple[ReignRow, ...]
    overlaps: tuple[OverlapRow, ...]
    superseded: tuple[SupersededRow, ...]
    faults: tuple[FaultRow, ...]
    phases: tuple[PhaseRow, ...]
