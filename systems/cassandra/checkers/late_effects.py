"""Late effects: a write that its server gave up takes effect after a serial read had not seen it.

A server that gives up a transaction answers so, and does nothing more for it. The write may have been proposed to some
replicas. A serial read that is asked for after that answer settles it: the read either carries the proposal out and
shows it, or it is never seen. Cassandra before CASSANDRA-12126 did not settle it, nor does its setting
`paxos_variant: v1_without_linearizable_reads_or_rejected_writes`.

This is no violation of linearizability, where a write of unknown outcome may take effect at any later time. So it has
a guarantee of its own. It is told only where the value has one writer, and where nobody saw it before the first serial
read after the answer had ended.

Source: CASSANDRA-12126, "CAS Reads Inconsistencies"; NEWS.txt of Cassandra 4.0: "a correctness issue with SERIAL
reads".
"""

from collections import Counter
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import rows
from fencepost.checkers.derived.positions import READS, WRITES, by_key, written
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding, duration
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.history.operation import GaveUp, error_of
from fencepost.harness.verdict import Facts, Verdict

_GIVEN_UP: Final = frozenset(GaveUp)
LATE: Final = Rule(
    guarantee="serial-reads-settle",
    anomaly="late-effect",
    tested="writes that their server gave up, that a serial read did not show, and that were looked for again",
)


class _Settled(msgspec.Struct, frozen=True, kw_only=True):
    """A write that was given up, the serial read that did not show it, and the first operation that saw it later."""

    write: Operation
    read: Operation
    seen: Operation | None


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every write that a server gave up, where the run's reads are serial ones.

    Args:
        history: one run.
        facts: the guarantee of its reads.

    Returns:
        One verdict: `invalid` where such a write took effect after a serial read had not shown it; `unknown` where none
        was looked for again. No verdict where the run's reads are not serial.

    Cost: O(n) for n operations, and O(g * m) for g writes that were given up, each with m operations on its key.
    """
    if facts.read_guarantee != "linearizable":
        return []
    settled = [one for operations in by_key(history.operations).values() for one in _settled(operations)]
    late = [_finding(one.write, one.read, one.seen) for one in settled if one.seen is not None]
    return [
        verdict(
            facts,
            LATE.tally(late, rows(one.write for one in settled)),
            broken=f"{len(late)} of {len(settled)} writes took effect after a serial read that did not show them",
        )
    ]


def _settled(operations: list[Operation]) -> list[_Settled]:
    """The writes of one key that were given up, and not seen before a serial read, which another operation followed."""
    makers = Counter[Value](written(o) for o in operations if o.f in WRITES and o.type is not Outcome.FAIL)
    answers = [o for o in operations if o.type is Outcome.OK and _shows(o) is not None]
    settled = []
    for write in operations:
        if not _is_given_up(write) or makers[written(write)] != 1:
            continue
        seeing = [o for o in answers if _shows(o) == (written(write),)]
        reads = [o for o in answers if o.f in READS and o.invoked_ns > (write.ended_ns or 0) and o not in seeing]
        first = min(reads, key=_ended, default=None)
        if first is None:
            continue
        seen = min(seeing, key=_ended, default=None)
        if seen is not None and seen.invoked_ns <= _ended(first):
            # It may have taken effect before the read did.
            continue
        if any(o.invoked_ns > _ended(first) for o in answers):
            settled.append(_Settled(write=write, read=first, seen=seen))
    return settled


def _is_given_up(write: Operation) -> bool:
    if write.f not in WRITES or write.type is not Outcome.INFO or write.ended_ns is None:
        return False
    error = error_of(write)
    return error is not None and error.code in _GIVEN_UP


def _shows(answered: Operation) -> tuple[Value] | None:
    """The value that an operation shows: what was read, or what a compare-and-set replaced; None if it shows none."""
    if answered.f in READS:
        return (answered.result,)
    return (answered.value[0],) if answered.f == "cas" and answered.value is not None else None


def _ended(answered: Operation) -> int:
    return answered.invoked_ns if answered.completed_ns is None else answered.completed_ns


def _finding(write: Operation, read: Operation, seen: Operation) -> Finding:
    between = duration(read.invoked_ns - (write.ended_ns or 0))
    return LATE.finding(
        write,
        read,
        seen,
        about=0,
        steps=(
            f"{write.node} answered {write.error} to the {write.f} of {written(write)!r} to {write.key}, and did no"
            " more for it.",
            f"{between} later process {read.process} asked {read.node} for a serial read of {write.key}: it showed"
            f" {read.result!r}.",
            f"{duration(seen.invoked_ns - _ended(read))} after that answer process {seen.process} began a"
            f" {'read' if seen.f in READS else seen.f} through {seen.node}, which showed {written(write)!r}.",
            "The write took effect after the read. A serial read settles what was given up before it.",
        ),
        nodes=tuple(dict.fromkeys((write.node, read.node, seen.node))),
    )
