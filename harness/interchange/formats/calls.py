"""Operations as intervals, as the events of a history: each client is a process with one open operation at a time."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.history import Event, OpEvent, Outcome

#: Of the number of a process.
_DIGITS_MAX: Final = 10


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One operation; `ended` is None where it is unknown whether it took effect. `client` is None for nobody's."""

    client: str | None
    f: str
    key: str | None
    value: Any
    result: Any
    started: int
    ended: int | None
    type: Outcome


def events_of(calls: Sequence[Call], refuse: Callable[[int, int], Exception]) -> tuple[list[Event], list[int]]:
    """Return events in the order of time, starts first among equal times; and the call of each event.

    Two operations of a client of which one ends when the other starts are concurrent, as in Porcupine. After an unknown
    outcome a client continues as another process; clients that are numbers keep them. Raises `refuse(i, other)` for a
    call that starts while another one of its client is open.
    """
    moments = [(call.started, 0, i) for i, call in enumerate(calls)]
    moments += [(call.ended, 1, i) for i, call in enumerate(calls) if call.ended is not None]
    names = {call.client for call in calls if call.client is not None}
    numbers = {name: int(name) for name in names if name.isdecimal() and len(name) < _DIGITS_MAX}
    free: dict[str | None, list[int]] = {name: [number] for name, number in numbers.items()}
    open_until: dict[str | None, tuple[int, int]] = {}
    process, unused = [0] * len(calls), 1 + max(numbers.values(), default=-1)
    events: list[Event] = []
    order = sorted(moments)
    zero = min((moment[0] for moment in order), default=0)
    for index, (time, ends, i) in enumerate(order):
        call = calls[i]
        if not ends:
            until, other = open_until.get(call.client, (zero, 0))
            if call.client is not None and until > time:
                raise refuse(i, other)
            if call.ended is not None:
                open_until[call.client] = max((until, other), (call.ended, i))
            if idle := free.setdefault(call.client, []):
                process[i] = idle.pop()
            else:
                process[i], unused = unused, unused + 1
        elif call.type is not Outcome.INFO:
            free[call.client].append(process[i])
        events.append(
            OpEvent(
                index=index,
                time_ns=time - min(zero, 0),
                type=call.type if ends else Outcome.INVOKE,
                process=process[i],
                f=call.f,
                node="",
                key=call.key,
                value=call.result if ends and call.type is Outcome.OK else call.value,
            )
        )
    return events, [i for _, _, i in order]
