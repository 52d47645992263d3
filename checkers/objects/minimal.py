"""The smallest sub-history found that refutes an object, cut down by what `checkers.objects.sub_history` allows.

It is looked for where the violation is: first with the parts of the object that the violation is about, behind the
operations that tell a state, ever earlier, then from the beginning. What refutes is then cut: parts of the object that
are not needed go, then operations that need not be explained, by halves, quarters and so on down to single ones. Any
smaller sub-history allows more orders, so one pass over single operations leaves one from which nothing more can go.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.objects.sub_history import KIND, STEPS_MAX, KeyRows
from fencepost.harness.history import Operation
from fencepost.harness.verdict import VerdictProof

#: Steps for one attempt to refute a sub-history, for all until one is refuted, and for cutting it; how many attempts.
_TRIED_STEPS: Final = 50_000
_FINDING_STEPS: Final = 400_000
_CUTTING_STEPS: Final = 150_000
_ATTEMPTS_MAX: Final = 400
#: Of an operation that is about one part, so many others are tried together with it.
_NEAR_MAX: Final = 24
#: In a longer history that would take too long.
_NEAR_OF_MAX: Final = 20_000
#: A sub-history of more operations than this is not cut down.
_CUT_MAX: Final = 3_000


class _Tried(msgspec.Struct, frozen=True):
    rows: KeyRows
    since: int | None
    must: tuple[int, ...]


class Minimal:
    """Looks for a proof that the object `name` has no order; `shown` show it, the first of them is at fault."""

    def __init__(self, name: str, operations: Sequence[Operation], shown: Sequence[Operation]) -> None:
        self._whole = KeyRows(operations, name, None)
        self._shown = shown
        self._attempts = 0
        self._spent = 0
        self._steps = _FINDING_STEPS

    def proof(self) -> VerdictProof | None:
        """The smallest proof that was found; None where no sub-history could be refuted within the budget."""
        first = next((tried for tried in self._candidates() if self._refutes(tried, _TRIED_STEPS)), None)
        if first is None:
            first = self._tried(self._whole, None, max(_until(op) for op in self._shown if is_ok(op)))
            if not self._refutes(first, STEPS_MAX):
                return None
        self._steps = self._spent + _CUTTING_STEPS
        small = self._cut(first) if len(first.must) <= _CUT_MAX else first
        may = small.rows.may(small.must, small.since)
        return VerdictProof(
            kind=KIND,
            name=self._whole.model.name,
            key=self._shown[0].key,
            rows=small.must,
            may=tuple(may),
            since=small.since,
            about=small.rows.about,
        )

    def _refutes(self, tried: _Tried | None, steps: int = _TRIED_STEPS) -> bool:
        if tried is None or not tried.must:
            return False
        self._attempts += 1
        before = tried.rows.spent
        may = tried.rows.may(tried.must, tried.since)
        objection = tried.rows.refuted(tried.must, may, tried.since, min(steps, self._steps - self._spent))
        self._spent += tried.rows.spent - before
        return objection is None

    def _tried(self, rows: KeyRows, since: int | None, until: int) -> _Tried:
        """All that must be explained between the operation `since` and the event `until`."""
        begin = -1 if since is None else rows.at[since].complete_index or -1
        must = tuple(
            op.invoke_index
            for op in rows.operations
            if is_ok(op) and begin < op.invoke_index and _until(op) <= until and rows.calls[op.invoke_index]
        )
        return _Tried(rows, since, must)

    def _candidates(self) -> Iterator[_Tried]:
        untils = sorted({_until(self._shown[0]), max(_until(op) for op in self._shown if is_ok(op))})
        whole = self._whole
        if whole.model.name.partition(":")[0] in ("append-log", "key-value"):
            # What is at an offset, and where an append stands, may be shown later.
            untils.append(max(_until(op) for op in whole.operations))
        parts = {part for op in self._shown for part in whole.parts(op)}
        abouts: list[tuple[str, ...] | None] = []
        if parts:
            first = sorted(set(whole.parts(self._shown[0])))
            abouts += [(part,) for part in first[:8]]
            abouts += [tuple(sorted(parts))]
        if len(parts) < 2 and len(whole.operations) <= _NEAR_OF_MAX:
            abouts += [tuple(sorted({*parts, part})) for part in self._near(untils[-1])]
        for about in [*dict.fromkeys(abouts), None]:
            rows = whole.only(about)
            for until in untils:
                shown = tuple(sorted(op.invoke_index for op in self._shown if is_ok(op) and _until(op) <= until))
                yield _Tried(rows, None, tuple(row for row in shown if rows.calls[row]))
                yield from self._windows(rows, until)
        yield from self._grown(parts, untils[-1])

    def _near(self, until: int) -> list[str]:
        """Other parts of the object, those that were asked about latest first."""
        near: dict[str, None] = {}
        for op in self._latest(until):
            near.update(dict.fromkeys(self._whole.parts(op)))
            if len(near) >= _NEAR_MAX:
                break
        return list(near)[:_NEAR_MAX]

    def _latest(self, until: int) -> list[Operation]:
        known = (op for op in self._whole.operations if is_ok(op) and _until(op) <= until)
        return sorted(known, key=_until, reverse=True)

    def _windows(self, rows: KeyRows, until: int) -> Iterator[_Tried]:
        """Behind ever earlier operations that tell a state, then from the beginning."""
        tells = [
            op.invoke_index
            for op in rows.operations
            if is_ok(op)
            and op.complete_index is not None
            and op.complete_index < min(until, self._shown[0].complete_index or until)
            and rows.calls[op.invoke_index]
            and rows.after(op) is not None
        ]
        back = 1
        while back <= len(tells) and back <= 64:
            yield self._tried(rows, tells[-back], until)
            back *= 2
        everything = self._tried(rows, None, until)
        if len(everything.must) <= _CUT_MAX:
            yield everything

    def _grown(self, parts: Collection[str], until: int) -> Iterator[_Tried]:
        """Try more and more of the object's parts: those of the operations nearest to the one at fault."""
        about = dict.fromkeys(sorted(parts))
        known, more = len(about), 1
        for op in self._latest(until):
            about.update(dict.fromkeys(self._whole.parts(op)))
            if len(about) >= known + more:
                known, more = len(about), 2 * more
                yield self._tried(self._whole.only(tuple(sorted(about))), None, until)

    def _cut(self, tried: _Tried) -> _Tried:
        tried = self._fewer_parts(tried)
        tried = self._fewer(tried)
        for since in reversed(self._tells(tried)):
            later = msgspec.structs.replace(tried, since=since, must=tuple(r for r in tried.must if r != since))
            begin = tried.rows.at[since].complete_index or 0
            later = msgspec.structs.replace(later, must=tuple(row for row in later.must if row > begin))
            if self._attempts < _ATTEMPTS_MAX and self._refutes(later):
                return self._fewer(later)
        return tried

    def _tells(self, tried: _Tried) -> list[int]:
        if tried.since is not None:
            return []
        return [row for row in tried.must if tried.rows.after(tried.rows.at[row]) is not None]

    def _fewer_parts(self, tried: _Tried) -> _Tried:
        """Less of what the object holds, while it still refutes."""
        about = list(
            tried.rows.about or sorted({p for row in tried.must for p in tried.rows.parts(tried.rows.at[row])})
        )
        length = (len(about) + 1) // 2
        while length and len(about) > 1 and self._attempts < _ATTEMPTS_MAX:
            at = 0
            while at < len(about) and self._attempts < _ATTEMPTS_MAX:
                fewer = tuple(about[:at] + about[at + length :])
                rows = self._whole.only(fewer)
                must = tuple(row for row in tried.must if rows.calls[row])
                if tried.since is not None and rows.after(rows.at[tried.since]) is None:
                    at += length
                    continue
                smaller = _Tried(rows, tried.since, must)
                if fewer and self._refutes(smaller):
                    about, tried = list(fewer), smaller
                else:
                    at += length
            length = 0 if length == 1 else (length + 1) // 2
        return tried

    def _fewer(self, tried: _Tried) -> _Tried:
        """Fewer operations that must be explained, the earliest let go first."""
        length = (len(tried.must) + 1) // 2
        while length and self._attempts < _ATTEMPTS_MAX:
            at = 0
            while at < len(tried.must) and self._attempts < _ATTEMPTS_MAX:
                fewer = msgspec.structs.replace(tried, must=tried.must[:at] + tried.must[at + length :])
                if self._refutes(fewer):
                    tried = fewer
                else:
                    at += length
            length = 0 if length == 1 else (length + 1) // 2
        return tried


def _until(op: Operation) -> int:
    return op.complete_index if is_ok(op) and op.complete_index is not None else op.invoke_index


def minimal_proof(name: str, operations: Sequence[Operation], shown: Sequence[Operation]) -> VerdictProof | None:
    """The smallest proof found that no order explains the object's `operations` (one key's, `shown` among them)."""
    return Minimal(name, operations, shown).proof()
