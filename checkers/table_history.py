"""Keys of a table of operations as a history of their own, so that what is wrong with them can be shown as events.

A table says when, not in which order, so at one time invocations stand before answers: intervals are closed. A process
that has two operations open, or acts after one of unknown outcome, which a table may tell, becomes several.
"""

from checkers import linearizable
from checkers.operations_table import Rows, operations_of
from harness.history import History
from harness.operation import Event, OpEvent, Outcome
from harness.verdict import Facts, Validity, Verdict, Witness


def events_of(rows: Rows) -> list[Event]:
    """The invocations and answers of all rows in the order of time; an unknown outcome has no answer."""
    moments: list[tuple[int, bool, int]] = []
    operations = operations_of(rows)
    for place, op in enumerate(operations):
        moments.append((op.invoked_ns, False, place))
        if op.completed_ns is not None:
            moments.append((op.completed_ns, True, place))
    moments.sort()
    free: dict[int, list[int]] = {}
    acting: dict[int, int] = {}
    unused = int(rows.process.max(initial=-1)) + 1
    met: set[int] = set()
    events: list[Event] = []
    for time_ns, answer, place in moments:
        op = operations[place]
        if answer:
            process = acting.pop(place)
            free.setdefault(op.process, []).append(process)
        else:
            waiting = free.get(op.process)
            if waiting:
                process = waiting.pop()
            elif op.process not in met:
                process = op.process
            else:
                process, unused = unused, unused + 1
            met.add(op.process)
            acting[place] = process
        events.append(
            OpEvent(
                index=len(events),
                time_ns=time_ns,
                type=Outcome.OK if answer else Outcome.INVOKE,
                process=process,
                f=op.f,
                node="",
                key=op.key,
                value=op.result if answer else op.value,
            )
        )
    return events


def witnesses_in(history: History, verdict: Verdict, facts: Facts) -> tuple[Witness, ...]:
    """The witnesses of a table's verdict as the events of `history`, which holds their keys, show them.

    Those of keys that the history lacks, or whose search does not end there, stay as they are. Raises RuntimeError
    where all of its keys are valid: a defect of one of the two searches.
    """
    (found,) = linearizable.check(history, facts)
    if found.validity is Validity.VALID and history.operations:
        raise RuntimeError("keys of the table were found invalid, and valid as a history")
    shown = {witness.key: witness for witness in found.witnesses}
    return tuple(shown.get(witness.key, witness) for witness in verdict.witnesses)
