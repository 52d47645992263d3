"""Session order: what ZooKeeper promises of plain reads, judged by the zxids that replies carry.

Writes are linearizable in the order of their positions, and a session sees the store's states in that order, never
back and never with a write left out, though perhaps late. Each reply carries the position of the state it came from,
and each value read the position of the write that made it, so all of it is checked without a search:

  position-went-back    a reply of a session stands before an earlier reply of the same session
  value-went-back       a session reads an older value of a key than it read or wrote before
  skipped-write         an answer of position z lacks an acknowledged write of its key at or below z
  two-values            one position made two different values of a key
  value-from-nowhere    a value that no write of its key carried, or that none can have put at that position
  write-order           a write completed before another was invoked, but stands at or after it
  cas-on-wrong-value    a compare-and-set follows directly on a value that it did not compare with
  renumbered-write      a write was acknowledged at one position and read at another

Where servers number writes differently (`checkers.derived.versions`), positions of two of them say nothing about each
other. Then nothing is concluded from comparing them: a session is judged by the replies of one server, and a value is
from nowhere only where nobody had asked for it yet.

A session is the server's; where a reply names none, the process stands for it. `info` writes may have taken effect at
any position. In ZooKeeper an answer and its zxid belong together, since no read runs beside a commit
(CommitProcessor), and etcd's revisions come with one transaction.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import READS, WRITES, by_key, ok_reads, ok_writes, write_position, written
from fencepost.checkers.derived.versions import Views, order_contradictions, views_of
from fencepost.checkers.rules import Judged, Rule, sorted_out, verdict
from fencepost.checkers.violations.circumstances import answered_words, epoch_words
from fencepost.checkers.violations.finding import Finding, shown
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Facts, Verdict


def _rule(anomaly: str, tested: str, lacks: str) -> Rule:
    return Rule(guarantee="session-order", anomaly=anomaly, tested=tested, lacks=lacks)


POSITION_BACK: Final = _rule(
    "position-went-back",
    "replies after another of their session",
    "no session got two replies with a position",
)
VALUE_BACK: Final = _rule("value-went-back", POSITION_BACK.tested, POSITION_BACK.lacks)
SKIPPED: Final = _rule(
    "skipped-write", "answers with both positions", "no answer with both positions is about a key that was written"
)
WRONG_CAS: Final = _rule("cas-on-wrong-value", "swaps", "no compare-and-set was acknowledged with a position")
TWO_VALUES: Final = _rule("two-values", "answers", "no answer names the position of its value")
NOWHERE: Final = _rule("value-from-nowhere", TWO_VALUES.tested, TWO_VALUES.lacks)
ORDER: Final = _rule("write-order", "writes after the first one", "no two writes were acknowledged with a position")
RENUMBERED: Final = Rule(
    guarantee="write-positions-agree",
    anomaly="renumbered-write",
    tested="reads that name the position of a write whose acknowledgement named it",
)
MOVED: Final = RENUMBERED.here(lacks="no read shows a write of one certain position")
#: Keys that anything else writes have values which one operation alone does not determine.
_REGISTER_WRITES: Final = frozenset({"write", "cas", "create"})


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge sessions, values and writes by the positions that replies tell.

    Returns:
        One verdict: `invalid` where a session went back, a position has two values, or writes contradict real time;
        `unknown` where no session read a key after another process's acknowledged write to it.

    Cost: O(n log n) in operations.
    """
    judged = [
        o for o in history.operations if o.position is not None and o.type is Outcome.OK and o.f in READS | WRITES
    ]
    views = views_of(history)
    parts = [session_breaches(judged, views), value_breaches(history, views), write_order_breaches(history)]
    parts += [renumbered(history, views)] if views.by_time else [skipped_writes(history), cas_breaches(history, views)]
    return [
        verdict(
            facts,
            *_judged(history, judged, views, [breach for part in parts for breach in part]),
            exposed=rows(_exposed(history)),
            exposure_of="answered reads of a key after another process's acknowledged write to it",
            untested="no session read a key after another process's acknowledged write to it",
            kept=f"{len(judged)} replies respect the order of their sessions",
            figures={"replies_judged": number_of(judged), "sessions": number_of(_first_replies(judged))},
        )
    ]


def _judged(history: History, judged: list[Operation], views: Views, findings: list[Finding]) -> list[Judged]:
    again = len(judged) - len(_first_replies(judged))
    writes = [w for w in ok_writes(history) if write_position(w) is not None]
    keys = {w.key for w in writes}
    reads = [r for r in ok_reads(history) if r.value_position is not None]
    placed = sum(r.position is not None and r.key in keys for r in reads)
    differ = "servers number writes differently, so positions do not tell" if views.by_time else ""
    chances = {
        POSITION_BACK: again,
        VALUE_BACK: again,
        SKIPPED.here(lacks=differ): 0 if differ else placed,
        WRONG_CAS.here(lacks=differ): 0 if differ else sum(w.f == "cas" for w in writes),
        TWO_VALUES: len(reads),
        NOWHERE: len(reads),
        ORDER: max(0, len(writes) - 1),
        MOVED: len(views.placed_reads),
    }
    return sorted_out(findings, chances)


def session_breaches(judged: list[Operation], views: Views) -> Iterator[Finding]:
    """Positions and values that went back within a session; `judged` in the order of invocation."""
    latest: dict[tuple[tuple[str, int], str], Operation] = {}
    known: dict[tuple[tuple[str, int], str, str | None], tuple[int, Operation]] = {}
    for operation in judged:
        session = session_of(operation)
        numbers = session, operation.node if views.by_time else ""
        before = latest.get(numbers)
        if before is not None and _known(before.position) > _known(operation.position):
            steps = (
                f"{_title(session)} got a reply from {before.node} that stands at {shown(before.position)}.",
                f"After that {operation.node} answered its {operation.f} from {shown(operation.position)}.",
            )
            yield POSITION_BACK.finding(before, operation, key=operation.key, steps=steps)
        else:
            latest[numbers] = operation
        value_position = write_position(operation) if operation.f in WRITES else operation.value_position
        if value_position is None:
            continue
        place = (*numbers, operation.key)
        seen = known.get(place)
        if seen is not None and seen[0] > value_position:
            steps = (
                f"{_title(session)} knew {operation.key} as of {shown(seen[0])}, by its own {seen[1].f}.",
                f"After that {operation.node} answered its {operation.f} with {_value(operation)!r}, as of "
                f"{shown(value_position)}.",
            )
            yield VALUE_BACK.finding(seen[1], operation, steps=steps)
        else:
            known[place] = (value_position, operation)


def skipped_writes(history: History) -> Iterator[Finding]:
    """Answers that lack an acknowledged write at or below their own position."""
    placed: dict[str | None, tuple[list[int], list[Operation]]] = {}
    for key, writes in by_key(ok_writes(history)).items():
        pairs = sorted((_known(write_position(w)), w.invoke_index, w) for w in writes if write_position(w) is not None)
        placed[key] = ([p for p, _, _ in pairs], [w for _, _, w in pairs])
    for read in ok_reads(history):
        if read.position is None or read.value_position is None or read.key not in placed:
            continue
        positions, writes = placed[read.key]
        i = bisect_right(positions, read.position)
        if i and positions[i - 1] > read.value_position:
            write = writes[i - 1]
            steps = (
                f"{write.f} of {write.value!r} to {read.key} was acknowledged at {shown(positions[i - 1])}.",
                f"{read.node} answered from its state at {shown(read.position)}, which includes it, with "
                f"{read.result!r} as of {shown(read.value_position)}.",
            )
            yield SKIPPED.finding(write, read, steps=steps)


def value_breaches(history: History, views: Views) -> Iterator[Finding]:
    """Positions with two values, and values that nobody can have written where they were read."""
    attempts = by_key(o for o in history.operations if o.f not in READS and o.type is not Outcome.FAIL)
    # Values below every acknowledged write were there before the first operation: the keys are made beforehand.
    lowest = min((_known(write_position(w)) for w in ok_writes(history) if write_position(w) is not None), default=None)
    for key, reads in by_key(r for r in ok_reads(history) if r.value_position is not None).items():
        own = attempts.get(key, [])
        first: dict[int, tuple[Value, Operation]] = {}
        if all(o.f in _REGISTER_WRITES for o in own):
            for write in own:
                position = write_position(write) if write.type is Outcome.OK else None
                if position is not None:
                    first.setdefault(position, (written(write), write))
        sources = _Sources(own, views) if all(o.f in _REGISTER_WRITES for o in own) else None
        for read in reads:
            at = _known(read.value_position)
            value, other = first.setdefault(at, (read.result, read))
            if value != read.result:
                yield _two_values(key, at, other, read)
            elif (
                other is read
                and sources is not None
                and lowest is not None
                and at >= lowest
                and not sources.may_have_written(read)
            ):
                why = "No write of that value to it was acknowledged at that position, and none is unanswered."
                steps = (
                    f"{read.node} answered that {key} is {read.result!r}, written at {shown(at)}.",
                    "Nobody had asked for that by then." if views.by_time else why,
                )
                yield NOWHERE.finding(read, steps=steps)


def renumbered(history: History, views: Views) -> Iterator[Finding]:
    """Each read that shows a write at another position than it was acknowledged at."""
    for read, write in views.renumbered:
        yield RENUMBERED.finding(
            write,
            read,
            steps=(
                f"{write.f} of {write.value!r} to {write.key} was acknowledged by {write.node}{epoch_words(write)}, at "
                f"position {shown(write_position(write))}; nobody else wrote that.",
                f"{answered_words(history, read, None)}: {read.result!r}, written at position "
                f"{shown(read.value_position)}{epoch_words(read)}.",
                "A write has one position: the two servers do not hold the same store.",
            ),
            nodes=tuple(dict.fromkeys((read.node, write.node))),
        )


class _Sources:
    """Which values of one key may have taken effect at a position that no acknowledgement names.

    Any may where servers number differently.
    """

    def __init__(self, writes: list[Operation], views: Views) -> None:
        self._earliest: dict[str, int] = {}
        for write in writes:
            if views.by_time or write.type is Outcome.INFO or write_position(write) is None:
                name = repr(written(write))
                self._earliest[name] = min(write.invoked_ns, self._earliest.get(name, write.invoked_ns))

    def may_have_written(self, read: Operation) -> bool:
        """Whether some write of the value that was read, invoked before the answer, has an unknown position."""
        earliest = self._earliest.get(repr(read.result))
        return earliest is not None and earliest <= _known(read.completed_ns)


def _two_values(key: str | None, at: int, other: Operation, read: Operation) -> Finding:
    verb = "wrote" if other.f in WRITES else "read"
    steps = (
        f"Process {other.process} {verb} {_value(other)!r} in {key} at position {shown(at)}.",
        f"Process {read.process} read {read.result!r} there through {read.node}, as of the same position.",
    )
    return TWO_VALUES.finding(other, read, steps=steps)


def write_order_breaches(history: History) -> Iterator[Finding]:
    """Acknowledged writes whose positions contradict real time, or are shared."""
    for first, second, why in order_contradictions(history):
        stand = (
            f"{o.f} of {o.value!r} to {o.key} through {o.node} stands at {shown(write_position(o))}."
            for o in (first, second)
        )
        yield ORDER.finding(first, second, key=second.key, steps=(*stand, f"The first {why}."))


def cas_breaches(history: History, views: Views) -> Iterator[Finding]:
    """Compare-and-sets that follow, by position, directly on another value than they compared with."""
    attempts = by_key(o for o in history.operations if o.f not in READS and o.type is not Outcome.FAIL)
    for key, own in attempts.items():
        if not all(o.f in _REGISTER_WRITES for o in own):
            continue
        placed = sorted(
            (
                (_known(write_position(o)), o.invoke_index, o)
                for o in own
                if o.type is Outcome.OK and write_position(o) is not None
            ),
        )
        sources = _Sources(own, views)
        for (_, _, before), (_, _, cas) in pairwise(placed):
            if cas.f != "cas" or cas.value[0] == written(before):
                continue
            # An unanswered write of the value compared with may stand in between.
            compared = msgspec.structs.replace(cas, result=cas.value[0])
            if sources.may_have_written(compared):
                continue
            steps = (
                f"{before.f} left {written(before)!r} in {key} at {shown(write_position(before))}.",
                f"The next write of {key}, at {shown(write_position(cas))}, is a compare-and-set that found "
                f"{cas.value[0]!r}; no unanswered write can have put it there.",
            )
            yield WRONG_CAS.finding(before, cas, steps=steps)


def _exposed(history: History) -> list[Operation]:
    """Answered reads of a key after a write to it by another process was acknowledged."""
    first: dict[str | None, tuple[int, int]] = {}
    by_other: dict[str | None, int] = {}
    for write in sorted(ok_writes(history), key=lambda w: _known(w.completed_ns)):
        at_ns = _known(write.completed_ns)
        _, process = first.setdefault(write.key, (at_ns, write.process))
        if process != write.process:
            by_other.setdefault(write.key, at_ns)
    exposed = []
    for read in ok_reads(history):
        if read.position is None or read.key not in first:
            continue
        at_ns, process = first[read.key]
        since_ns = at_ns if process != read.process else by_other.get(read.key)
        if since_ns is not None and since_ns < read.invoked_ns:
            exposed.append(read)
    return exposed


def _first_replies(judged: list[Operation]) -> list[Operation]:
    """Return the first reply of each session."""
    first: dict[tuple[str, int], Operation] = {}
    for operation in judged:
        first.setdefault(session_of(operation), operation)
    return list(first.values())


def session_of(operation: Operation) -> tuple[str, int]:
    if operation.session is not None:
        return "session", operation.session
    return "process", operation.process


def _title(session: tuple[str, int]) -> str:
    kind, number = session
    return f"Session {number:#x}" if kind == "session" else f"Process {number}"


def _value(operation: Operation) -> Value:
    return operation.result if operation.f in READS else written(operation)


def _known(number: int | None) -> int:
    """A number that the caller has made sure of."""
    assert number is not None
    return number
