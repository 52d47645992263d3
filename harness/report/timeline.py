"""The data of the zoomable timeline: columns of operations in base64, lanes, faults, epochs. `timeline.js` draws it.

Below each node's lane its operations fill as few rows as their overlaps allow (a process retires at every `info`, so
one row per process would be mostly empty). A long history is cut. The witness's operations always stay; then come those
that did not end `ok`, then those around the witness, then an even sample of the rest. A sentence says what was cut.
"""

import base64
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fencepost.harness.history import FaultSpan, History, Operation, OpEvent, Outcome
from fencepost.harness.report.overview import Lanes, LaneState, follows, stretch_title
from fencepost.harness.report.svg import EPOCH_CLASSES, fault_name
from fencepost.harness.report.words import count, operation
from fencepost.harness.verdict import Vocabulary, Witness

OPERATIONS_MAX: Final = 20_000
#: The largest shares of the room for operations that did not end `ok`, and for those around the witness.
_NOT_OK_SHARE: Final = 0.35
_AROUND_SHARE: Final = 0.35
_STRETCHES_MAX: Final = 6_000
_ROWS_MAX: Final = 60
_TYPES: Final = {Outcome.OK: 0, Outcome.FAIL: 1, Outcome.INFO: 2, Outcome.INVOKE: 2}
#: A compare-and-set whose answer was "another value".
_LOST_COMPARE: Final = 3
_WITNESS_BIT: Final = 4
_NEVER_ENDED_BIT: Final = 8


class _Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The operations shown, as positions in `History.operations`, and a sentence on what was cut."""

    kept: tuple[int, ...]
    total: int
    summary: str


def focus(witnesses: Sequence[Witness], history: History) -> tuple[int, int] | None:
    """Return the interval to show first: the operations of the first witness, with a quarter added on both sides.

    A witness also names events of long before (as when an epoch began), so all its events count only if it has no
    operations.
    """
    if not witnesses:
        return None
    first = witnesses[0]
    named = [history.events[i] for i in first.events if 0 <= i < len(history.events)]
    times = [e.time_ns for e in named if isinstance(e, OpEvent)] or [first.from_ns, first.to_ns]
    start, end = min(times), max(times)
    margin = max((end - start) // 4, 10_000_000)
    return max(start - margin, 0), min(end + margin, max(history.end_ns, 1))


def cut(
    operations: Sequence[Operation], witnessed: set[int], window: tuple[int, int] | None, most: int = OPERATIONS_MAX
) -> _Cut:
    """Choose at most `most` operations (more only if the witnesses alone have more)."""
    total = len(operations)
    if total <= most:
        return _Cut(kept=tuple(range(total)), total=total, summary=f"All {count(total)} operations are shown.")
    shown = {i for i, o in enumerate(operations) if o.invoke_index in witnessed or o.complete_index in witnessed}
    not_ok = [i for i, o in enumerate(operations) if o.type is not Outcome.OK and i not in shown]
    some_not_ok = _even(not_ok, min(int(most * _NOT_OK_SHARE), most - len(shown)))
    shown.update(some_not_ok)
    around: list[int] = []
    if window is not None:
        middle = (window[0] + window[1]) // 2
        candidates = [
            i
            for i, o in enumerate(operations)
            if i not in shown and o.invoked_ns <= window[1] and (o.ended_ns or o.invoked_ns) >= window[0]
        ]
        candidates.sort(key=lambda i: abs(operations[i].invoked_ns - middle))
        around = candidates[: max(min(int(most * _AROUND_SHARE), most - len(shown)), 0)]
        shown.update(around)
    rest = [i for i in range(total) if i not in shown]
    shown.update(_even(rest, max(most - len(shown), 0)))
    summary = (
        f"{count(len(shown))} of {count(total)} operations are shown: the witnesses', "
        f"{count(len(some_not_ok))} of {count(len(not_ok))} others that did not end ok, "
        + (f"{count(len(around))} around the first witness, " if window is not None else "")
        + "and an even sample of the rest."
    )
    return _Cut(kept=tuple(sorted(shown)), total=total, summary=summary)


def _even(items: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the items, evenly spread."""
    if len(items) <= most:
        return list(items)
    return [items[i * len(items) // most] for i in range(max(most, 0))]


def timeline(
    history: History, lanes: Lanes, witnesses: Sequence[Witness], vocabulary: Vocabulary
) -> tuple[dict[str, Any], _Cut]:
    """Return everything that `timeline.js` draws, ready for JSON; and what was cut."""
    window = focus(witnesses, history)
    witnessed = {i for w in witnesses for i in w.events}
    chosen = cut(history.operations, witnessed, window)
    unit_ns = max(1000, -(-max(history.end_ns, 1) // 2_000_000_000))
    nodes = list(dict.fromkeys([*lanes.by_node, *(o.node for o in history.operations)]))
    kept = [history.operations[i] for i in chosen.kept]
    rows, heights = _rows(kept, nodes, history.end_ns)
    return {
        "unitNs": unit_ns,
        "end": -(-max(history.end_ns, 1) // unit_ns),
        "word": vocabulary.epoch,
        "epochClasses": EPOCH_CLASSES,
        "nodes": [_node(node, heights[node], lanes) for node in nodes],
        "ops": _columns(kept, rows, nodes, witnessed, unit_ns, history.end_ns, vocabulary),
        "stretches": _stretches(lanes, unit_ns, vocabulary.epoch),
        "faults": [_fault(f, unit_ns, history.end_ns) for f in history.faults],
        "begins": [
            {"epoch": epoch, "at": ns // unit_ns} for epoch, ns in sorted(lanes.begins_ns.items())[:500] if ns > 0
        ],
        "phases": [{"name": name, "at": start // unit_ns} for name, (start, _) in history.phases.items()],
        "focus": [window[0] // unit_ns, -(-window[1] // unit_ns)] if window else None,
    }, chosen


def _rows(kept: Sequence[Operation], nodes: Sequence[str], end_ns: int) -> tuple[list[int], dict[str, int]]:
    """Give each operation the first free row of its node; also return the number of rows of each node."""
    ends: dict[str, list[int]] = {node: [] for node in nodes}
    rows: list[int] = []
    for op in kept:
        free = ends[op.node]
        until = op.ended_ns if op.ended_ns is not None else end_ns
        row = next((i for i, end in enumerate(free) if end <= op.invoked_ns), len(free))
        if row == len(free):
            if len(free) < _ROWS_MAX:
                free.append(until)
            else:
                row = min(range(len(free)), key=free.__getitem__)
        free[row] = max(until, free[row])
        rows.append(row)
    return rows, {node: len(used) for node, used in ends.items()}


def _columns(
    kept: Sequence[Operation],
    rows: Sequence[int],
    nodes: Sequence[str],
    witnessed: set[int],
    unit_ns: int,
    end_ns: int,
    vocabulary: Vocabulary,
) -> dict[str, Any]:
    numbers = {node: i for i, node in enumerate(nodes)}
    requests = _Texts()
    errors = _Texts()
    starts, lengths, flags, epochs = [], [], [], []
    for op in kept:
        end = op.ended_ns if op.ended_ns is not None else end_ns
        starts.append(op.invoked_ns // unit_ns)
        lengths.append((end - op.invoked_ns) // unit_ns)
        flag = _LOST_COMPARE if op.lost_compare else _TYPES[op.type]
        flag |= _WITNESS_BIT if op.invoke_index in witnessed or op.complete_index in witnessed else 0
        flags.append(flag | (_NEVER_ENDED_BIT if op.ended_ns is None else 0))
        epochs.append(op.epoch if op.epoch is not None and 0 <= op.epoch < 2**31 else -1)
    return {
        "count": len(kept),
        "start": _packed("i", starts),
        "length": _packed("i", lengths),
        "node": _packed("H", (numbers[o.node] for o in kept)),
        "row": _packed("H", rows),
        "flags": _packed("B", flags),
        "process": _packed("i", (min(o.process, 2**31 - 1) for o in kept)),
        "index": _packed("i", (o.invoke_index for o in kept)),
        "epoch": _packed("i", epochs),
        "said": _packed("I", [requests.number(operation(o)) for o in kept]),
        "error": _packed("H", [errors.number(_error(o, vocabulary)) for o in kept]),
        "saidTexts": requests.texts,
        "errorTexts": errors.texts,
    }


def _error(op: Operation, vocabulary: Vocabulary) -> str:
    """Return the text beside an operation: its error, or its position if the history is about positions."""
    if op.error:
        return op.error[:160]
    return "" if op.type is Outcome.OK or op.position is None else f"at {vocabulary.position(op.position)}"


class _Texts:
    """Texts by number, each kept once; after 65,000 texts every other one becomes "(more)"."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        if known is None:
            if len(self.texts) >= 65_000:
                text = "(more)"
                if text in self._numbers:
                    return self._numbers[text]
            known = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return known


def _packed(code: str, numbers: Iterable[int]) -> str:
    """Pack little-endian integers as base64: a third of the size of JSON, and quick to read."""
    values = list(numbers)
    return base64.b64encode(struct.pack(f"<{len(values)}{code}", *values)).decode("ascii")


def _node(node: str, rows: int, lanes: Lanes) -> dict[str, Any]:
    """Return a node's rows and lanes; lanes have names only if there are several subjects."""
    titles = [subject if lanes.others else "" for subject, _ in lanes.of(node)]
    return {"name": node, "rows": rows, "lanes": titles}


def _stretches(lanes: Lanes, unit_ns: int, word: str) -> list[dict[str, Any]]:
    epochs = lanes.epochs
    every = [(number, s) for node in lanes.by_node for number, (_, lane) in enumerate(lanes.of(node)) for s in lane]
    every.sort(key=lambda item: item[1].from_ns)
    return [
        {
            "node": s.node,
            "lane": number,
            "state": s.state.value,
            "from": s.from_ns // unit_ns,
            "to": s.to_ns // unit_ns,
            "epoch": s.epoch_text,
            "said": f"leads {s.epoch_text}" if s.state is LaneState.LEADER else follows(s),
            "style": epochs.index(s.epoch) % EPOCH_CLASSES if s.epoch is not None else -1,
            "superseded": [s.superseded[0] // unit_ns, s.superseded[1] // unit_ns] if s.superseded else None,
            "title": stretch_title(s, word),
        }
        for number, s in every[:_STRETCHES_MAX]
    ]


def _fault(fault: FaultSpan, unit_ns: int, end_ns: int) -> dict[str, Any]:
    proven = fault.certain_from_ns
    return {
        "name": fault_name(fault),
        "nodes": list(fault.nodes),
        "possible": [fault.began_ns // unit_ns, (fault.ended_ns or end_ns) // unit_ns],
        "proven": None if proven is None else [proven // unit_ns, (fault.certain_to_ns or end_ns) // unit_ns],
    }
