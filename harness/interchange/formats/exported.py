"""The forms in which a history is written for other tools, and what has no place in each."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fencepost.harness.history import Event, FaultEvent, Operation, OpEvent, Outcome, pair
from fencepost.harness.interchange.formats.jepsen import write_edn
from fencepost.harness.interchange.formats.json_objects import write_json
from fencepost.harness.interchange.formats.porcupine import write_porcupine
from fencepost.harness.interchange.formats.texts import write_awdit, write_log


class ExportForm(NamedTuple):
    """`write` gives the lines; `without` says what has no place in them, and `lost` how many of it there are."""

    write: Callable[[Sequence[Event]], Iterator[str]]
    lost: Callable[[Sequence[Event]], int]
    without: str


def _except(*kinds: type) -> Callable[[Sequence[Event]], int]:
    return lambda events: sum(type(event) not in kinds for event in events)


def _unanswered(*outcomes: Outcome) -> Callable[[Sequence[Event]], int]:
    return lambda events: _except(OpEvent)(events) + sum(op.type in outcomes for op in pair(events))


def _paired(write: Callable[[Sequence[Operation]], Iterator[str]]) -> Callable[[Sequence[Event]], Iterator[str]]:
    return lambda events: write(pair(events))


def _write_lines(events: Sequence[Event]) -> Iterator[str]:
    return (msgspec.json.encode(event).decode() + "\n" for event in events)


_NO_OPERATIONS: Final = "events that are no operations"
EXPORTS: Final = {
    "edn": ExportForm(write_edn, _except(OpEvent, FaultEvent), "events that are neither operations nor faults"),
    "json": ExportForm(write_json, _except(OpEvent), _NO_OPERATIONS),
    "log": ExportForm(write_log, _except(OpEvent), _NO_OPERATIONS),
    "porcupine": ExportForm(
        _paired(write_porcupine), _unanswered(Outcome.FAIL), f"{_NO_OPERATIONS}, and operations that failed"
    ),
    "awdit": ExportForm(
        _paired(write_awdit),
        _unanswered(Outcome.FAIL, Outcome.INFO),
        f"{_NO_OPERATIONS}, and transactions that were not acknowledged",
    ),
    "jsonl": ExportForm(_write_lines, lambda _: 0, ""),
}
