"""Histories in lines of text: Jepsen's log, and the sessions of AWDIT and Plume; read, and written again.

Jepsen's log (`jepsen.log`, `history.txt`) has an operation after any prefix: process, type, function, value and error,
with tabs between them. Lines without one are no operations.

The sessions of AWDIT have a read or a write (`r KEY VALUE`) on each line, `---` between two transactions of a session
and `===` between two sessions. Plume writes `w(KEY,VALUE,SESSION,TRANSACTION)` instead; 0 is the value before any
write, and transaction -1 was aborted. Neither has times, so only transactions of one session have a certain order.
"""

import io
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import BinaryIO, Final, NamedTuple

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import Event, Operation, OpEvent, Outcome
from fencepost.harness.interchange.formats.edn import EdnEvents, edn_text, malformed
from fencepost.harness.interchange.formats.json_objects import utf8
from fencepost.harness.interchange.formats.operation_maps import (
    OperationMap,
    ReadingChoices,
    from_rows,
    read_edn_rows,
)

#: Each line: process, type, function and value of an operation, or nothing.
_LOGGED: Final = re.compile(
    r"^(?:.*?[ \t])??(\d+|:nemesis)[ \t]+(:invoke|:ok|:fail|:info)[ \t]+(:[^\s]+)[ \t]*([^\t\n]*).*$|^.*$", re.MULTILINE
)
_MICRO: Final = {
    "awdit": re.compile(r"([rw])\s+(\d{1,18})\s+(\d{1,18})"),
    "plume": re.compile(r"([rw])\((\d{1,18}),(\d{1,18}),(\d{1,18}),(-?\d{1,18})\)"),
}
_LOOKS: Final = {"awdit": "r KEY VALUE, w KEY VALUE, --- or ===", "plume": "r(KEY,VALUE,SESSION,TRANSACTION)"}
_ABORTED: Final = "-1"


def read_log_rows(stream: BinaryIO, source: str, choices: ReadingChoices) -> tuple[EdnEvents, list[str]]:
    """Read the operations in Jepsen's log as columns, with notes."""
    # Line for line, so that messages name those of the log.
    lines = [
        f"{{:process {process} :type {kind} :f {f} :value {value or 'nil'}}}" if process else ""
        for process, kind, f, value in _LOGGED.findall(utf8(stream.read(), source))
    ]
    return read_edn_rows(io.BytesIO("\n".join(lines).encode()), source, choices)


class _Transaction(NamedTuple):
    line: int
    #: Reads and writes: r or w, key, value.
    micros: list[tuple[str, str, str]]


def read_awdit_rows(stream: BinaryIO, source: str, choices: ReadingChoices) -> tuple[EdnEvents, list[str]]:
    """Read sessions of AWDIT as columns, with notes."""
    sessions: list[list[_Transaction]] = [[]]
    begins = True
    for line, text in _lines(stream, source):
        if not text.strip("=-"):
            begins = True
            if "=" in text and sessions[-1]:
                sessions.append([])
            continue
        micro = _MICRO["awdit"].fullmatch(text)
        if micro is None:
            raise malformed(source, line, 1, f"`{text[:40]}`; expected {_LOOKS['awdit']}")
        if begins:
            sessions[-1].append(_Transaction(line, []))
            begins = False
        sessions[-1][-1].micros.append((micro[1], micro[2], micro[3]))
    return _laid_out(sessions, [], source, choices)


def read_plume_rows(stream: BinaryIO, source: str, choices: ReadingChoices) -> tuple[EdnEvents, list[str]]:
    """Read sessions of Plume as columns, with notes."""
    sessions: dict[str, dict[str, _Transaction]] = {}
    aborted: list[_Transaction] = []
    written = set()
    for line, text in _lines(stream, source):
        micro = _MICRO["plume"].fullmatch(text)
        if micro is None:
            raise malformed(source, line, 1, f"`{text[:40]}`; expected {_LOOKS['plume']}")
        f, key, value, session, number = micro.groups()
        if number == _ABORTED:
            transaction = _Transaction(line, [])
            aborted.append(transaction)
        else:
            transaction = sessions.setdefault(session, {}).setdefault(number, _Transaction(line, []))
        transaction.micros.append((f, key, value))
        if f == "w" and value == "0":
            written.add(key)
    everything = [*aborted, *(one for session in sessions.values() for one in session.values())]
    for one in everything:
        one.micros[:] = [(f, k, "nil" if f == "r" and v == "0" and k not in written else v) for f, k, v in one.micros]
    return _laid_out([list(session.values()) for session in sessions.values()], aborted, source, choices)


def _lines(stream: BinaryIO, source: str) -> Iterator[tuple[int, str]]:
    for line, text in enumerate(utf8(stream.read(), source).split("\n"), 1):
        if text.strip():
            yield line, text.strip()


def _laid_out(
    sessions: list[list[_Transaction]], aborted: list[_Transaction], source: str, choices: ReadingChoices
) -> tuple[EdnEvents, list[str]]:
    """Let the sessions run side by side, one transaction of each at a time."""
    rows: list[OperationMap] = []

    def add(kind: str, process: int, one: _Transaction) -> None:
        is_answer = kind == ":ok"
        value = " ".join(f"[:{f} {key} {v if is_answer or f == 'w' else 'nil'}]" for f, key, v in one.micros)
        fields = {"type": kind, "process": str(process), "f": ":txn", "value": f"[{value}]"}
        rows.append(OperationMap(one.line, 1, fields))

    for number, one in enumerate(aborted):
        for kind in (":invoke", ":fail"):
            add(kind, len(sessions) + number, one)
    for beside in zip_longest(*sessions):
        for kind in (":invoke", ":ok"):
            for process, transaction in enumerate(beside):
                if transaction is not None:
                    add(kind, process, transaction)
    columns, notes = from_rows(rows, source, choices)
    return columns, [*notes, "no times: only transactions of one session are in a certain order"]


# --- writing


def write_log(events: Iterable[Event]) -> Iterator[str]:
    """Write one operation per line, as Jepsen's log has them; leave out all other events."""
    for event in events:
        if type(event) is OpEvent:
            value = event.value if event.key is None else [event.key, event.value]
            f = "read" if event.f == "members" else event.f
            error = "" if event.error is None else f"\t{edn_text(event.error)}"
            yield f"{event.process}\t:{event.type.value}\t:{f}\t{edn_text(value)}{error}\n"


def write_awdit(operations: Iterable[Operation]) -> Iterator[str]:
    """Write the sessions of acknowledged transactions; raises UsageError for what AWDIT has no form for."""
    sessions: dict[int, list[Operation]] = {}
    for op in operations:
        if op.type is Outcome.OK:
            sessions.setdefault(op.process, []).append(op)
    for number, session in enumerate(sessions.values()):
        yield "=====\n" if number else ""
        for place, op in enumerate(session):
            yield "-----\n" if place else ""
            for micro in op.result if op.f == "txn" and isinstance(op.result, list) else [op.f]:
                f, key, value = micro if isinstance(micro, list) and len(micro) == 3 else ("", None, None)
                if str(f).strip(":") not in ("r", "w") or not _is_number(key) or type(value) is not int or value < 0:
                    raise UsageError(
                        f"event {op.invoke_index}: {edn_text(micro)} has no form in AWDIT; "
                        "expected reads and writes of numbers",
                        hint="--format edn or jsonl can hold every operation",
                    )
                yield f"{str(f).strip(':')} {key} {value}\n"


def _is_number(key: object) -> bool:
    return str(key).isdecimal()
