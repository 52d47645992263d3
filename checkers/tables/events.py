"""Rows of a table as the events of a history, so that what is wrong with them can be drawn, and handed to other tools.

A table says when, not in which order, so at one time invocations stand before answers: intervals are closed. A process
that has two operations open, or acts after one of unknown outcome, which a table may tell, becomes several.
"""

from collections.abc import Iterable, Sequence

import msgspec

from fencepost.harness.history import Event, Operation, OpEvent, Outcome


def events_of(rows: Iterable[Operation]) -> list[Event]:
    """The invocations and answers of operations in the order of time; an unknown outcome has no answer."""
    operations = list(rows)
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
