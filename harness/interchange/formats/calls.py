"""Operations as intervals, as the events of a history: each client is a process with one open operation at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fencepost.harness.history import UNNAMED_NODE, Event, Operation, OpEvent, Outcome
from fencepost.harness.interchange.formats.imported import CheckedEvents

#: Of the number of a process.
_DIGITS_MAX: Final = 10


class Call(msgspec.Struct, kw_only=True, gc=False):
    """One operation; `ended` is None where it is unknown whether it took effect. `client` is None for nobody's."""

    client: str | None
    f: str
    key: str | None
    value: Any
    result: Any
    started: int
    ended: int | None
    type: Outcome


class CallEvents(CheckedEvents):
    """The events of calls in the order of time, starts first among equal times, then in the order of the calls.

    Two operations of a client of which one ends when the other starts are concurrent, as in Porcupine. A client with an
    open operation, or one of unknown outcome, continues as another process; clients that are numbers keep them.
    """

    def __init__(self, calls: Sequence[Call], refuse: Callable[[int, int], Exception] | None = None) -> None:
        """Order the events; raise `refuse(i, other)` for a call that starts while another of its client is open."""
        self.calls: Final = calls
        ended = [i for i, call in enumerate(calls) if call.ended is not None]
        times = np.fromiter((call.started for call in calls), np.int64, len(calls))
        times = np.append(times, np.fromiter((calls[i].ended for i in ended), np.int64, len(ended)))
        rows = np.append(np.arange(len(calls)), np.array(ended, np.int64))
        is_end = np.arange(len(times)) >= len(calls)
        order = np.lexsort((rows, is_end, times))
        self._call: Final[NDArray[np.int64]] = rows[order]
        self._is_end: Final[NDArray[np.bool_]] = is_end[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        self._end_of: Final = np.full(len(calls), -1)
        self._end_of[ended] = place[len(calls) :]
        #: The first moment, if it is before 0: times are counted from there.
        self._zero: Final = min(int(times.min(initial=0)), 0)
        self._process: Final = self._processes(refuse)

    def _processes(self, refuse: Callable[[int, int], Exception] | None) -> list[int]:
        calls = self.calls
        names = {call.client for call in calls if call.client is not None}
        numbers = {name: int(name) for name in names if name.isdecimal() and len(name) < _DIGITS_MAX}
        free: dict[str | None, list[int]] = {name: [number] for name, number in numbers.items()}
        open_until: dict[str | None, tuple[int, int]] = {}
        process, unused = [0] * len(calls), 1 + max(numbers.values(), default=-1)
        for i, ends in zip(self._call.tolist(), self._is_end.tolist(), strict=True):
            call = calls[i]
            if ends:
                if call.type is not Outcome.INFO:
                    free[call.client].append(process[i])
                continue
            if refuse is not None and call.client is not None:
                until, other = open_until.get(call.client, (call.started, 0))
                if until > call.started:
                    raise refuse(i, other)
                if call.ended is not None:
                    open_until[call.client] = max((until, other), (call.ended, i))
            if idle := free.setdefault(call.client, []):
                process[i] = idle.pop()
            else:
                process[i], unused = unused, unused + 1
        return process

    def __len__(self) -> int:
        return len(self._call)

    def call_of(self, event: int) -> int:
        """Return which call an event is of."""
        return int(self._call[event])

    def rename(self, old: str, new: str) -> None:
        for call in self.calls:
            if call.f == old:
                call.f = new

    def _iterated(self, start: int, stop: int) -> Iterator[Event]:
        rows = zip(self._call[start:stop].tolist(), self._is_end[start:stop].tolist(), strict=True)
        for index, (i, ends) in enumerate(rows, start):
            call = self.calls[i]
            time = call.started if not ends or call.ended is None else call.ended
            yield OpEvent(
                index=index,
                time_ns=time - self._zero,
                type=call.type if ends else Outcome.INVOKE,
                process=self._process[i],
                f=call.f,
                node="",
                key=call.key,
                value=call.result if ends and call.type is Outcome.OK else call.value,
            )

    def paired(self, the_one: str | None) -> list[Operation]:
        begun = np.flatnonzero(~self._is_end)
        rows = self._call[begun]
        operations = []
        for index, i, end in zip(begun.tolist(), rows.tolist(), self._end_of[rows].tolist(), strict=True):
            call, is_open = self.calls[i], end < 0
            ended = None if call.ended is None else call.ended - self._zero
            operations.append(
                Operation(
                    invoke_index=index,
                    complete_index=None if is_open else end,
                    process=self._process[i],
                    f=call.f,
                    node=UNNAMED_NODE,
                    type=Outcome.INFO if is_open else call.type,
                    invoked_ns=call.started - self._zero,
                    completed_ns=None if call.type is Outcome.INFO else ended,
                    ended_ns=ended,
                    key=the_one if call.key is None else call.key,
                    value=call.value,
                    result=None if is_open else call.result if call.type is Outcome.OK else call.value,
                    error="never completed" if is_open else None,
                )
            )
        return operations
