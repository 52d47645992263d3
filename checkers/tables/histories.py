"""Rows of a table as a history of their own, so that what is wrong with them can be shown as events, and handed on.

A table says when, not in which order, so at one time invocations stand before answers: intervals are closed. A process
that has two operations open, or acts after one of unknown outcome, which a table may tell, becomes several.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.tables import operations as operations_table
from fencepost.checkers.tables import transactions as transactions_table
from fencepost.checkers.tables.operations import operations_of
from fencepost.checkers.transactions.columns import FAIL, NIL, OK, READ, WRITE
from fencepost.harness.base.errors import Contradiction
from fencepost.harness.history import Event, History, Operation, OpEvent, Outcome, Value
from fencepost.harness.verdict import Facts, Validity, Verdict, Witness

_OUTCOMES: Final = {OK: Outcome.OK, FAIL: Outcome.FAIL}


def events_of(rows: operations_table.Rows) -> list[Event]:
    """The invocations and answers of operations in the order of time; an unknown outcome has no answer."""
    return _events(operations_of(rows))


def transaction_events_of(rows: transactions_table.Rows) -> list[Event]:
    """The same of transactions, invoked in the order of the rows; one that failed is answered when it was invoked."""
    return _events(_transactions_of(rows))


def ended(events: Sequence[Event]) -> list[Event]:
    """The events, and at their end an `info` for each operation without an answer, for readers that need one."""
    unanswered: dict[int, OpEvent] = {}
    for event in events:
        assert isinstance(event, OpEvent)
        if event.type is Outcome.INVOKE:
            unanswered[event.process] = event
        else:
            del unanswered[event.process]
    at = {"type": Outcome.INFO, "time_ns": events[-1].time_ns if events else 0}
    return [
        *events,
        *(
            msgspec.structs.replace(event, index=index, **at)
            for index, event in enumerate(unanswered.values(), len(events))
        ),
    ]


def _transactions_of(rows: transactions_table.Rows) -> list[Operation]:
    c = rows.columns
    write = ":append" if rows.lists else ":w"
    first, start, elements = c.first.tolist(), c.start.tolist(), c.elements.tolist()
    kind, key, value = c.kind.tolist(), c.key.tolist(), c.value.tolist()

    def seen(m: int) -> Value:
        if rows.lists:
            return elements[start[m] : start[m + 1]]
        return None if value[m] == NIL else value[m]

    def micro_operations(t: int, *, answered: bool) -> Value:
        return [
            [write, key[m], value[m]]
            if kind[m] == WRITE
            else [":r", key[m], seen(m) if answered and kind[m] == READ else None]
            for m in range(first[t], first[t + 1])
        ]

    outcomes = [_OUTCOMES.get(outcome, Outcome.INFO) for outcome in c.outcome.tolist()]
    times = zip(c.process.tolist(), c.invoked.tolist(), c.completed.tolist(), strict=True)
    return [
        Operation(
            invoke_index=t,
            complete_index=None,
            process=process,
            f="txn",
            node="",
            type=outcomes[t],
            invoked_ns=invoked,
            completed_ns={Outcome.OK: completed, Outcome.FAIL: invoked}.get(outcomes[t]),
            value=micro_operations(t, answered=False),
            result=micro_operations(t, answered=outcomes[t] is Outcome.OK),
        )
        for t, (process, invoked, completed) in enumerate(times)
    ]


def _events(operations: Sequence[Operation]) -> list[Event]:
    moments: list[tuple[int, bool, int]] = []
    for place, op in enumerate(operations):
        moments.append((op.invoked_ns, False, place))
        if op.completed_ns is not None:
            moments.append((op.completed_ns, True, place))
    moments.sort()
    last = {operations[place].process: place for _, answer, place in moments if not answer}
    free: dict[int, list[int]] = {process: [process] for process in last}
    acting: dict[int, int] = {}
    unused = max(last, default=-1) + 1
    events: list[Event] = []
    for time_ns, answer, place in moments:
        op = operations[place]
        if answer:
            process = acting.pop(place)
            free[op.process].append(process)
        # What is never answered keeps its process, so it has that of the table only if nothing comes after it.
        elif free[op.process] and (op.completed_ns is not None or last[op.process] == place):
            process = acting[place] = free[op.process].pop()
        else:
            process = acting[place] = unused
            unused += 1
        events.append(
            OpEvent(
                index=len(events),
                time_ns=time_ns,
                type=op.type if answer else Outcome.INVOKE,
                process=process,
                f=op.f,
                node="",
                key=op.key,
                value=op.result if answer else op.value,
            )
        )
    return events


def witnesses_in(history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
    """The witnesses of a table of operations as the events of `history`, which holds their keys, show them.

    Those of keys that the history lacks, or whose search does not end there, stay as they are. Raises
    Contradiction where all of its keys are valid.
    """
    (judged,) = linearizable.check(history, facts)
    if judged.validity is Validity.VALID and history.operations:
        raise Contradiction("keys of the table were found invalid, and valid as a history")
    shown = {witness.key: witness for witness in judged.witnesses}
    return tuple(shown.get(witness.key, witness) for witness in verdict.witnesses)


def transaction_witnesses_in(history: History, verdict: Verdict) -> tuple[Witness, ...]:
    """The witnesses of a table of transactions by the events of `history`; those that it lacks have none there."""
    return tuple(msgspec.structs.replace(witness, events=_events_in(history, witness)) for witness in verdict.witnesses)


def _events_in(history: History, witness: Witness) -> tuple[int, ...]:
    operations = [history.transactions.get(number) for number in witness.transactions]
    if None in operations:
        return ()
    indexes = {index for op in operations if op for index in (op.invoke_index, op.complete_index)}
    return tuple(sorted(index for index in indexes if index is not None))
