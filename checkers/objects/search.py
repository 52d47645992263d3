"""Ask the native search for an order of the calls on each object.

Before that, calls of unknown outcome are removed whose fate other calls decide: one whose results nobody sees can be
left out of any order; if only one call can have made what a returned call saw, it took effect before that return.
"""

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fencepost.checkers import _core
from fencepost.checkers.derived.positions import is_ok, return_of
from fencepost.checkers.objects.kind import Call, Calls, Kind
from fencepost.checkers.objects.model import Steps
from fencepost.harness.history import Operation
from fencepost.harness.verdict import SearchBudget

S = TypeVar("S", bound=Hashable)
#: A call of `step` costs microseconds; the search asks once for each state and call, and remembers the answer.
ASKED_MAX = 5_000_000
#: Of each object before all others had their turn.
ASKED_FIRST = 2_000
#: Between two events there is room for calls that must have taken effect before the second.
_ROOM = 1 << 20

#: The exception to raise where `step` for an operation did what it must not: it raised, or what is said in words.
Wrong = Callable[[Operation, BaseException | str], BaseException]


class Answer(NamedTuple):
    """What the search says of one object: `order` explains it, or is a longest one up to `failed`.

    That passes in no order. `states` are what it may be in then, maybe of more; `open` is what had not returned.
    Neither order nor `failed`: the search was stopped.
    """

    result: _core.ObjectResult
    order: Sequence[Operation]
    failed: tuple[Operation, Call] | None
    open: Sequence[Operation]

    @property
    def states(self) -> Sequence[Any]:
        return self.result.states

    @property
    def more_states(self) -> bool:
        return self.result.states_count > len(self.result.states)


class _Row(NamedTuple):
    """`seen_by`: who is refused where this passes in no order, if that is another."""

    op: Operation
    call: Call
    invoked: int
    returned: int
    seen_by: tuple[Operation, Call] | None = None


#: A row that stands as it was met; of its five parts a `_Row` has the names.
_Plain = tuple[Operation, Call, int, int, tuple[Operation, Call] | None]


def search(
    model: Steps,
    subjects: Mapping[S, Calls],
    budget: SearchBudget,
    *,
    wrong: Wrong | None = None,
    same: Callable[[Call], Hashable] = lambda call: call,
) -> dict[S, Answer]:
    """Judge each object by itself, all under one budget.

    Args:
        model: what each is; `init` gives the state at first.
        subjects: the calls on each object that did not fail.
        wrong: makes an exception of what `step` did.
        same: by what equal calls are known.

    Cost: exponential in the number of concurrent calls at worst; at most `ASKED_MAX` calls of `step`.
    """
    collects = gc.isenabled()
    # Rows and calls hold no cycles, and the collector would only go through them again and again.
    gc.disable()
    try:
        return _searched(model, subjects, budget, wrong, same)
    finally:
        if collects:
            gc.enable()


def _searched(
    model: Steps,
    subjects: Mapping[S, Calls],
    budget: SearchBudget,
    wrong: Wrong | None,
    same: Callable[[Call], Hashable],
) -> dict[S, Answer]:
    kinds: dict[Hashable, int] = {}
    calls: list[Call] = []
    first: list[Operation] = []
    rows: list[_Plain] = []
    subject, kind, invoked, returned = list[int](), list[int](), list[int](), list[int]()
    for at, own in enumerate(subjects.values()):
        reduced = _reduced(model, own)
        rows += reduced
        subject += [at] * len(reduced)
        for op, call, begin, end, _ in reduced:
            number = kinds.setdefault(same(call), len(calls))
            if number == len(calls):
                calls.append(call)
                first.append(op)
            kind.append(number)
            invoked.append(begin)
            returned.append(end)
    is_read = model.reads_only if isinstance(model, Kind) else lambda call: call[0] in model.reads
    results = _core.check_model(
        subject,
        kind,
        invoked,
        returned,
        calls,
        list(map(is_read, calls)),
        model.step,
        model.init(),
        None if wrong is None else lambda kind, what: wrong(first[kind], what),
        subjects=len(subjects),
        asked=ASKED_MAX,
        asked_first=ASKED_FIRST,
        steps=budget.steps,
        memory_bytes=budget.memory_bytes,
        wall_s=budget.wall_s,
    )
    return {
        one: Answer(
            result,
            [rows[i][0] for i in result.order],
            None if result.failed is None else rows[result.failed][4] or rows[result.failed][:2],
            [rows[i][0] for i in result.open],
        )
        for one, result in zip(subjects, results, strict=True)
    }


def _reduced(model: Steps, calls: Calls) -> Sequence[_Plain]:
    plain: list[_Plain] = [(op, call, op.invoke_index * _ROOM, return_of(op) * _ROOM, None) for op, call in calls]
    if not isinstance(model, Kind) or all(is_ok(op) for op, _ in calls):
        return plain
    rows = [_Row(*row) for row in plain]
    while True:
        makers: dict[Hashable, int] = {}
        seen: dict[Hashable, _Row] = {}
        for row in rows:
            for made in model.makes(row.call):
                makers[made] = makers.get(made, 0) + 1
            for made in model.sees(row.call) if row.returned >= 0 else ():
                if made not in seen or row.returned < seen[made].returned:
                    seen[made] = row
        kept = list(_kept(model, rows, makers, seen))
        if all(row is other for row, other in zip(rows, kept, strict=False)) and len(kept) == len(rows):
            return rows
        rows = kept


def _kept(
    model: Kind, rows: Sequence[_Row], makers: Mapping[Hashable, int], seen: Mapping[Hashable, _Row]
) -> Iterator[_Row]:
    for row in rows:
        made = list(model.makes(row.call))
        if row.returned >= 0 or not made:
            yield row
            continue
        by = [seen[token] for token in made if makers[token] == 1 and token in seen]
        by = [one for one in by if one.returned > row.invoked]
        if by:
            first = min(by, key=lambda one: one.returned)
            yield row._replace(returned=first.returned - 1, seen_by=first.seen_by or (first.op, first.call))
        elif any(token in seen for token in made):
            yield row
