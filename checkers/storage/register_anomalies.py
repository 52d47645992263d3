"""Name and explain in words what the search refused: one register's first operation that no order passes.

The search proves that no order exists; this looks for the shortest reason that a person can follow. When it finds none
the anomaly is plainly `non-linearizable`, and the longest explained order has to speak for itself.

Registers are data here: `encode` turns the operations of a history into rows (function code, a, b) for the search, over
values numbered from 0, where 0 is "absent", what every register holds at first.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fencepost.checkers.violations.finding import Finding, by, listed, proof_words, seconds
from fencepost.checkers.violations.impossible import Numbers, is_same
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.base.quantities import counted
from fencepost.harness.history import Operation, Outcome, Value
from fencepost.harness.verdict import VerdictProof

READ: Final = 0
WRITE: Final = 1
CAS: Final = 2


class _Model(msgspec.Struct, frozen=True, kw_only=True):
    """A sequential object: the functions that it understands, by name, with their code for the search."""

    name: str
    functions: dict[str, int]


REGISTER: Final = _Model(name="register", functions={"read": READ, "write": WRITE})
CAS_REGISTER: Final = _Model(name="cas-register", functions={"read": READ, "write": WRITE, "cas": CAS})


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of a model as integer columns: row i is `operations[i]`.

    `keys` and `values` name what the numbers stand for. `returned` is -1 where the outcome is unknown. Times are the
    indexes of events, since one writer put them in their order.
    """

    operations: Sequence[Operation]
    keys: Sequence[str | None]
    values: Sequence[Value]
    key: NDArray[np.int64]
    f: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    invoked: NDArray[np.int64]
    returned: NDArray[np.int64]


def encode(operations: Iterable[Operation], model: _Model = CAS_REGISTER) -> Columns:
    """Number keys and values, and lay out the operations in columns.

    Operations that constrain nothing are left out: those that failed, reads of unknown outcome, other functions.

    Raises:
        MalformedHistory: a cas whose value is not [old, new]; names the event.
    """
    functions = model.functions
    keys: dict[str | None, int] = {}
    values = Numbers(None)
    kept: list[Operation] = []
    rows: list[tuple[int, int, int, int, int, int]] = []
    # To look up three members of an enum would take a third of the time.
    ok, fail = Outcome.OK, Outcome.FAIL
    for op in operations:
        code = functions.get(op.f)
        if code is None or op.type is fail or (code == READ and op.type is not ok):
            continue
        a, b = _arguments(op, code, values)
        returned = op.complete_index if op.type is ok else None
        rows.append(
            (keys.setdefault(op.key, len(keys)), code, a, b, op.invoke_index, -1 if returned is None else returned)
        )
        kept.append(op)
    table = np.array(rows, dtype=np.int64).reshape(len(rows), 6)
    key, f, first, second, invoked, done = (np.ascontiguousarray(table[:, i]) for i in range(6))
    return Columns(
        operations=kept,
        keys=tuple(keys),
        values=values.named,
        key=key,
        f=f,
        a=first,
        b=second,
        invoked=invoked,
        returned=done,
    )


def _arguments(op: Operation, code: int, values: Numbers) -> tuple[int, int]:
    if code == READ:
        return values.number(op.result), 0
    if code == WRITE:
        return values.number(op.value), 0
    if not isinstance(op.value, (list, tuple)) or len(op.value) != 2:
        raise MalformedHistory(f"event {op.invoke_index}: the value of a cas is [old, new], not {op.value!r}")
    return values.number(op.value[0]), values.number(op.value[1])


def makes(op: Operation) -> Value:
    """The value that a write or cas leaves behind."""
    return op.value[1] if op.f == "cas" else op.value


def sees(op: Operation) -> Value:
    """The value that a read returned or a cas compared with."""
    return op.value[0] if op.f == "cas" else op.result


_NAMED_VALUES_MAX: Final = 6
_SHOWN_MAX: Final = 8


class RefutedKey(msgspec.Struct, frozen=True, kw_only=True):
    """What the search says of one key: `failed` passes in no order; `explained` operations go before it in one.

    `must` are a few operations that suffice to prove it, whatever the register held at event `since` (None: nothing,
    before all of them); those of `may` may go in between or not.
    """

    failed: Operation
    subhistory: Sequence[Operation]
    explained: int
    open: Sequence[Operation]
    states: Sequence[Value]
    must: Sequence[Operation] = ()
    may: Sequence[Operation] = ()
    since: int | None = None


def explain(refusal: RefutedKey, proof: VerdictProof | None = None) -> Finding:
    """The most telling reason why `refusal.failed` passes in no order; `proof` goes with it."""
    reason = _Subhistory(refusal.subhistory).reason(refusal.failed)
    anomaly, operations, steps = reason or ("non-linearizable", (), ())
    lead = f"{describe(refusal.failed)} {_outcome(refusal.failed)}"
    shown = (refusal.failed, *operations)
    if not reason:
        others = [op for op in (*refusal.must, *refusal.may) if op is not refusal.failed]
        shown = (refusal.failed, *(others or refusal.open)[:_SHOWN_MAX])
    behind = "" if refusal.since is None else f", whatever {refusal.failed.key} held at event {refusal.since}"
    proven = proof_words(refusal.must, refusal.may, behind, _brief)
    sentences = (f"{lead}.", *steps, *_search_words(refusal), *proven)
    return Finding(anomaly=anomaly, operations=shown, steps=sentences, about=0, proof=proof)


def describe(op: Operation) -> str:
    """Which operation, so that it can be found in the history."""
    return f"{_phrase(op)} {by(op)}"


def _phrase(op: Operation) -> str:
    match op.f:
        case "write":
            return f"write of {op.value!r} to {op.key}"
        case "cas":
            return f"cas of {op.key} from {op.value[0]!r} to {op.value[1]!r}"
        case _:
            return op.f if op.key is None else f"{op.f} of {op.key}"


def _outcome(op: Operation) -> str:
    what = f"returned {_named(op.result)}" if op.f == "read" else f"succeeded, so {op.key} held {_named(sees(op))}"
    completed = op.completed_ns if op.completed_ns is not None else op.invoked_ns
    return f"{what} (invoked at {seconds(op.invoked_ns)}, answered at {seconds(completed)})"


def _named(value: Value) -> str:
    return "nothing (the value before any write)" if value is None else repr(value)


def _search_words(refusal: RefutedKey) -> list[str]:
    sentences = []
    if refusal.explained:
        before = counted(refusal.explained, "operation")
        sentences.append(f"An order explains {before} on {refusal.failed.key} up to its answer.")
    if refusal.failed.f in ("read", "cas"):
        sentences.append(f"In no order does the register then hold {_named(sees(refusal.failed))}.")
    if refusal.states:
        held = [_named(value) for value in refusal.states[:_NAMED_VALUES_MAX]]
        more = len(refusal.states) - len(held)
        sentences.append(f"It can hold only {' or '.join(held)}{f', or one of {more} more' if more else ''}.")
    if refusal.open:
        sentences.append(f"Open at that moment: {listed(refusal.open, describe, _NAMED_VALUES_MAX)}.")
    return sentences


def _brief(op: Operation) -> str:
    saw = f" that returned {_named(op.result)}" if op.f == "read" else ""
    return f"{_phrase(op)}{saw} (event {op.invoke_index})"


_Reason = tuple[str, tuple[Operation, ...], tuple[str, ...]]


class _Subhistory:
    """One key's operations, asked who made a value and when that was over."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._failed_writes = [o for o in operations if o.type is Outcome.FAIL and o.f in ("write", "cas")]
        self._writes = [o for o in operations if o.type is not Outcome.FAIL and o.f in ("write", "cas")]
        self._observers = [o for o in operations if o.type is Outcome.OK and o.f in ("read", "cas")]
        self._makers_of = Counter(_name(makes(w)) for w in self._writes)
        self._first_observer: dict[Value, Operation] = {}
        for op in self._observers:
            held = self._first_observer.setdefault(_name(sees(op)), op)
            if _answered(op) < _answered(held):
                self._first_observer[_name(sees(op))] = op

    def reason(self, failed: Operation) -> _Reason | None:
        if failed.f not in ("read", "cas"):
            return None
        value = sees(failed)
        makers = [w for w in self._writes if is_same(makes(w), value) and w is not failed]
        prefix = "cas-" if failed.f == "cas" else ""
        reason = self._twice_from_one(failed, makers) if failed.f == "cas" else None
        if reason is None and value is not None:
            reason = self._phantom(failed, makers)
        if reason is None:
            reason = self._stale(failed, makers) or self._went_back(failed, makers)
        if reason is None:
            return None
        anomaly, operations, steps = reason
        return prefix + anomaly, operations, steps

    def _twice_from_one(self, failed: Operation, makers: list[Operation]) -> _Reason | None:
        """Two compare-and-sets that both succeeded from a value that was there once: one update was lost."""
        old = sees(failed)
        if len(makers) + (old is None) != 1:
            return None
        rival = next((o for o in self._observers if o.f == "cas" and o is not failed and is_same(sees(o), old)), None)
        if rival is None or is_same(makes(rival), old) or is_same(makes(failed), old):
            return None
        why = f"{describe(rival)} succeeded from the same {_named(old)}, which was written once: one of them was lost."
        return "lost-update", (rival, *makers), (why,)

    def _phantom(self, failed: Operation, makers: list[Operation]) -> _Reason | None:
        value = sees(failed)
        if makers:
            late = [w for w in makers if _answered(failed) < w.invoke_index]
            if len(late) < len(makers):
                return None
            why = f"{describe(late[0])} made that value only at {seconds(late[0].invoked_ns)}, after it was seen."
            return "phantom-read", (late[0],), (why,)
        refused = next((w for w in self._failed_writes if is_same(makes(w), value)), None)
        if refused is None:
            return "phantom-read", (), (f"Nobody ever wrote {value!r} to {failed.key}.",)
        why = f"Only {describe(refused)} wrote that value, and it failed ({refused.error or 'no error named'})."
        return "phantom-read", (refused,), (why,)

    def _stale(self, failed: Operation, makers: list[Operation]) -> _Reason | None:
        """Every write that can have made the value was certainly over before `failed` was invoked."""
        value = sees(failed)
        over: list[tuple[Operation | None, Operation, Operation | None]] = []
        sources: list[Operation | None] = [*makers]
        if value is None:
            sources.append(None)
        for maker in sources:
            if maker is not None and _answered(failed) < maker.invoke_index:
                continue
            known = self._over_before(maker, value, failed)
            if known is None:
                return None
            over.append((maker, *known))
        if not over:
            return None
        maker, overwriter, seen_by = over[-1]
        lost = self._is_lost(overwriter, value, failed)
        steps = (*_made_words(failed, maker), _overwritten_words(failed, overwriter, seen_by))
        if lost:
            steps = (
                *steps,
                f"No operation ever saw {makes(overwriter)!r}; reads on several nodes saw {_named(value)}.",
            )
        shown = tuple(o for o in (maker, overwriter, seen_by) if o is not None)
        return ("lost-write" if lost else "stale-read"), shown, steps

    def _went_back(self, failed: Operation, makers: list[Operation]) -> _Reason | None:
        """The value was certainly made, then another one was seen, then it again, though it was made once."""
        value = sees(failed)
        if len(makers) + (value is None) != 1:
            return None
        since, first = self._certain(makers[0]) if makers else (-1, None)
        if since is None:
            return None
        for other in self._observers:
            if (
                not is_same(sees(other), value)
                and since < other.invoke_index
                and _answered(other) < failed.invoke_index
            ):
                made = _made_words(failed, makers[0] if makers else None)
                seen = () if first is None else (f"{describe(first)} saw it.",)
                back = (
                    f"After that {describe(other)} saw {_named(sees(other))}, before this {failed.f} was invoked at "
                    f"{seconds(failed.invoked_ns)}; it was made once, so {failed.key} cannot have gone back to it."
                )
                shown = (*makers, other) if first is None else (*makers, first, other)
                return "stale-read", shown, (*made, *seen, back)
        return None

    def _over_before(
        self, maker: Operation | None, value: Value, failed: Operation
    ) -> tuple[Operation, Operation | None] | None:
        """A write that certainly came after `maker` and before `failed`, and the read that proves it if one does."""
        since = -1 if maker is None else self._certain(maker)[0]
        if since is None:
            return None
        # A compare-and-set from a value that was made once came after its maker, whenever it was invoked.
        once = maker is not None and self._makers_of[_name(value)] == 1
        certain: list[tuple[bool, int, Operation, Operation | None]] = []
        for other in self._writes:
            if other is failed or is_same(makes(other), value):
                continue
            until, seen_by = self._certain(other)
            if until is None or until >= failed.invoke_index:
                continue
            if other.invoke_index > since or (once and other.f == "cas" and is_same(sees(other), value)):
                certain.append((seen_by is None, other.invoke_index, other, seen_by))
        # An acknowledged write tells more than one that was only seen; then the latest.
        _, _, overwriter, seen_by = max(certain, key=lambda candidate: candidate[:2], default=(False, 0, None, None))
        return None if overwriter is None else (overwriter, seen_by)

    def _certain(self, write: Operation) -> tuple[int | None, Operation | None]:
        """The event by which `write` had certainly taken effect, and its first observer where that is why."""
        value = makes(write)
        acknowledged = write.complete_index if write.type is Outcome.OK else None
        once = value is not None and self._makers_of[_name(value)] == 1
        first = self._first_observer.get(_name(value)) if once else None
        if first is None or (acknowledged is not None and acknowledged <= _answered(first)):
            return acknowledged, None
        return _answered(first), first

    def _is_lost(self, overwriter: Operation, value: Value, failed: Operation) -> bool:
        """Acknowledged, seen by nobody, and before the next write reads on two nodes or more saw the older value."""
        if overwriter.type is not Outcome.OK or any(is_same(sees(o), makes(overwriter)) for o in self._observers):
            return False
        done = _answered(overwriter)
        others = [w.invoke_index for w in self._writes if w is not overwriter and w is not failed]
        next_write = min((i for i in others if i > overwriter.invoke_index), default=None)
        reads = [
            o
            for o in self._observers
            if o.f == "read" and o.invoke_index > done and (next_write is None or _answered(o) < next_write)
        ]
        return bool(reads) and all(is_same(o.result, value) for o in reads) and len({o.node for o in reads}) >= 2


def _name(value: Value) -> Value:
    """`value` as a dictionary's key; those of other types are other keys."""
    return type(value), repr(value) if isinstance(value, (list, dict)) else value


def _answered(op: Operation) -> int:
    assert op.complete_index is not None
    return op.complete_index


def _made_words(failed: Operation, maker: Operation | None) -> tuple[str, ...]:
    if maker is None:
        return (f"{failed.key} holds nothing only before the first write.",)
    return (f"That value came from {describe(maker)}, {_when(maker)}.",)


def _when(op: Operation) -> str:
    if op.type is Outcome.OK and op.completed_ns is not None:
        return f"acknowledged at {seconds(op.completed_ns)}"
    return f"invoked at {seconds(op.invoked_ns)}, outcome unknown"


def _overwritten_words(failed: Operation, overwriter: Operation, seen_by: Operation | None) -> str:
    proof = "" if seen_by is None else f" and seen by {describe(seen_by)}"
    return (
        f"It was overwritten by {describe(overwriter)}, {_when(overwriter)}{proof}, before this "
        f"{failed.f} was invoked at {seconds(failed.invoked_ns)}."
    )
