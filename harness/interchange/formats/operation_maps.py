"""Operations of one map each, in EDN or JSON, rewritten for the reader of Jepsen's EDN.

Published histories leave out what their own tool does not need, name processes by texts, or have times that go back.
Every guess about such a file is a note that the user is told; what cannot be guessed stays for the reader to refuse.
"""

import io
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec
import numpy as np

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.interchange.formats.edn import EdnEvents, malformed, read_events
from fencepost.harness.plugins import registry

ORDERS: Final = ("file", "index", "time")
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|\\(?:[^\s,()\[\]{}";]+|.)|;[^\n]*|#_|#\{|[()\[\]{}]|[^\s,()\[\]{}";\\]+', re.DOTALL
)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "#{": "}"}
_INTEGER: Final = re.compile(r"\+?[0-9]{1,18}N?")
#: A read within a transaction: its function and key.
_READ: Final = re.compile(r"""\[(:r|"r")[\s,]+([^\s,\[\]]+)[\s,]+(?:\[[^\[\]]*\]|[^\s,\[\]]+)\]""")
_LINE: Final = re.compile(r"\bline (\d+)\b")
_NEMESIS: Final = (":nemesis", '"nemesis"')
_COLUMNS: Final = (
    *("time", "kind", "process", "function", "value"),
    *("error", "node", "key", "invocation", "forms"),
)


class ReadingChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The user's choices about the operations: their order, one of `ORDERS`, and functions that are left out."""

    order: str | None = None
    ignore: tuple[str, ...] = ()


#: Reads operations as columns, with notes about what was guessed.
MapReader = Callable[[BinaryIO, str, ReadingChoices], tuple[EdnEvents, list[str]]]


class OperationMap(NamedTuple):
    """One operation: its fields as EDN, by their name without the colon."""

    line: int
    column: int
    fields: dict[str, str]

    def has(self, name: str) -> bool:
        return self.fields.get(name, "nil") != "nil"

    @property
    def f(self) -> str:
        return self.fields.get("f", "").strip('":')

    @property
    def kind(self) -> str:
        return self.fields.get("type", "").strip('":')

    @property
    def has_caller(self) -> bool:
        process = self.fields.get("process", "")
        return bool(_INTEGER.fullmatch(process)) or process[:1] in (":", '"')

    @property
    def is_client(self) -> bool:
        return self.fields.get("process") not in _NEMESIS


def read_edn_rows(stream: BinaryIO, source: str, choices: ReadingChoices) -> tuple[EdnEvents, list[str]]:
    """Read EDN as columns, with notes: as rows if the reader refuses the file, or if there are choices about it."""
    kept: list[bytes] = []
    start = stream.tell() if isinstance(stream, io.IOBase) and stream.seekable() else None
    refusal = None
    if choices == ReadingChoices():
        try:
            return read_events(_Tee(stream, kept) if start is None else stream, source), []  # type: ignore[arg-type]
        except UsageError as error:
            refusal = error
            if start is not None:
                stream.seek(start)
    data = b"".join((*kept, *iter(lambda: stream.read(1 << 20), b"")))
    try:
        rows = list(_edn_rows(data.decode()))
    except (ValueError, IndexError):
        if refusal is not None:
            raise refusal from None
        read_events(io.BytesIO(data), source)
        raise UsageError(
            f"{source}: --order and --ignore need a plain list of maps", hint="take `#_` out of the file"
        ) from None
    return from_rows(rows, source, choices, refusal)


class _Tee(io.RawIOBase):
    """A stream that cannot be read twice, with a copy of what was read."""

    def __init__(self, stream: BinaryIO, kept: list[bytes]) -> None:
        self._stream, self._kept = stream, kept

    def read(self, size: int = -1) -> bytes:
        self._kept.append(self._stream.read(size))
        return self._kept[-1]


def _edn_rows(text: str) -> Iterator[OperationMap]:
    """Split maps into fields. Raises ValueError or IndexError for what is no plain list of maps."""
    tokens = [match for match in _TOKEN.finditer(text) if match[0][0] != ";"]
    at = int(bool(tokens) and tokens[0][0] in "[(")
    line, counted = 1, 0
    while at < len(tokens) and not (tokens[0][0] in "[(" and at == len(tokens) - 1):
        place = tokens[at].start()
        line += text.count("\n", counted, place)
        counted = place
        at += tokens[at][0].endswith("Op") and tokens[at][0][0] == "#"
        end = _form_end(tokens, at) - 1
        if tokens[at][0] != "{":
            raise ValueError("no operation")
        fields: dict[str, str] = {}
        at += 1
        while at < end:
            name, value = tokens[at][0].removeprefix(":"), at + 1
            at = _form_end(tokens, value)
            if name in fields or at > end:
                raise ValueError("a field twice, or without a value")
            fields[name] = text[tokens[value].start() : tokens[at - 1].end()]
        yield OperationMap(line, place - text.rfind("\n", 0, place), fields)
        at = end + 1


def _form_end(tokens: list[re.Match[str]], at: int) -> int:
    """Return the position after the form that begins at this token."""
    closing: list[str] = []
    while True:
        token = tokens[at][0]
        at += 1
        if token == "#_":
            raise ValueError("a discarded form")
        if token in _CLOSING:
            closing.append(_CLOSING[token])
        elif token in (")", "]", "}") and (not closing or closing.pop() != token):
            raise ValueError("another bracket")
        is_tag = token[0] == "#" and token[:2] not in ("#{", "##")
        if not closing and not is_tag:
            return at


# --- the guesses


def from_rows(
    rows: list[OperationMap], source: str, choices: ReadingChoices, refusal: UsageError | None = None
) -> tuple[EdnEvents, list[str]]:
    """Read rows as columns; raise the refusal if there is one and nothing was guessed."""
    notes: list[str] = []
    rows = _without(rows, choices.ignore, source, notes)
    for guess in (_name_clients, _name_functions):
        guess(rows, notes)
    rows = _ordered(rows, choices.order, source, notes)
    _give_processes(rows, source, notes)
    rows = _with_invocations(rows, notes)
    _number_processes(rows, notes)
    if refusal is not None and not notes:
        raise refusal
    return _columns(rows, source), notes


def _without(rows: list[OperationMap], ignore: Collection[str], source: str, notes: list[str]) -> list[OperationMap]:
    counts = Counter(row.f for row in rows if row.is_client)
    for f in ignore:
        if f.strip(":") not in counts:
            raise unknown_choice("operation to ignore", f, sorted(counts))
    names = [f.strip(":") for f in ignore]
    notes += [f"ignored: {counts[f]} events of {f}" for f in names]
    return [row for row in rows if not (row.is_client and row.f in names)]


def _name_clients(rows: list[OperationMap], notes: list[str]) -> None:
    if any("client" in row.fields for row in rows) and not any(row.has("process") for row in rows if row.is_client):
        for row in rows:
            if "client" in row.fields:
                row.fields["process"] = row.fields["client"]
        notes.append("`client` names the process")


def _name_functions(rows: list[OperationMap], notes: list[str]) -> None:
    """Take operations without :f for transactions, if their values look so."""
    clients = [row for row in rows if row.is_client]
    values = [row.fields["value"] for row in clients if row.has("value")]
    if values and not any(row.has("f") for row in clients) and all(re.match(r"[\[(]\s*[\[(]", v) for v in values):
        for row in clients:
            row.fields["f"] = ":txn"
        notes.append("operations without :f are taken for transactions")


def _numbers(rows: list[OperationMap], name: str) -> list[int] | None:
    texts = [row.fields.get(name, "") for row in rows]
    return [int(text.rstrip("N")) for text in texts] if rows and all(map(_INTEGER.fullmatch, texts)) else None


def _ordered(rows: list[OperationMap], order: str | None, source: str, notes: list[str]) -> list[OperationMap]:
    """Put rows in the order that was chosen; else in that of :index if it numbers them, else in that of the file."""
    numbers = {name: _numbers(rows, name) for name in ("index", "time")}
    if order in numbers and rows and numbers[order] is None:
        raise UsageError(
            f"{source}: --order {order}: not every operation has an integer :{order}", hint="choose --order file"
        )
    indexes, times = numbers["index"], numbers["time"]
    takes = order
    if indexes is not None:
        grows, once = _grows(indexes), len(set(indexes)) == len(indexes)
        takes = order or ("index" if once and not grows else "file")
        if not grows and takes != "time":
            notes.append(f":index does not grow: the order is that of the {_WORD[takes]}; --order chooses another")
        for row in rows:
            del row.fields["index"]
    takes = takes or "file"
    keys: list[Any] = list(range(len(rows)))
    if takes == "index" and indexes is not None:
        keys = indexes
    elif takes == "time" and times is not None:
        keys = _time_keys(rows, times)
    places = sorted(range(len(rows)), key=keys.__getitem__)
    if times is not None:
        moments = [times[i] for i in places]
        if takes == "time" and places != list(range(len(rows))):
            notes.append(":time goes back in the file: the order is that of the times, as --order says")
        back = next((i for i, (one, other) in enumerate(pairwise(moments), 1) if other < one), None)
        if back is not None:
            notes.append(
                f":time goes back, first in line {rows[places[back]].line}: the order is that of the "
                f"{_WORD[takes]}; --order time takes the times"
            )
        for i, moment in zip(places, accumulate(moments, max), strict=True):
            rows[i].fields["time"] = str(moment)
    return [rows[i] for i in places]


_WORD: Final = {"file": "file", "index": "indexes", "time": "times"}


def _grows(numbers: list[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


def _time_keys(rows: list[OperationMap], times: list[int]) -> list[tuple[int, bool]]:
    """Let operations that touch be concurrent: at equal times invocations come first, those of one process in turn."""
    ended: dict[str, int] = {}
    keys = []
    for row, time in zip(rows, times, strict=True):
        process = row.fields.get("process", "")
        late = row.kind != "invoke" or ended.get(process) == time
        if late:
            ended[process] = time
        keys.append((time, late))
    return keys


def _give_processes(rows: list[OperationMap], source: str, notes: list[str]) -> None:
    """Give each operation a process of its own where none is named; a completion is of the one that it can be of."""
    if not rows or any("process" in row.fields for row in rows if row.is_client):
        return
    pending: list[tuple[str, OperationMap]] = []
    for number, row in enumerate(rows):
        if row.kind == "invoke":
            row.fields["process"] = str(number)
            pending.append((row.f, row))
            continue
        alike = [each for each in pending if each[0] == row.f] if len(pending) > 1 else pending
        if len(alike) > 1:
            alike = [each for each in alike if each[1].fields.get("value") == row.fields.get("value")]
        if len(alike) != 1:
            raise malformed(
                source,
                row.line,
                row.column,
                f"an operation without :process, and {len(alike) or 'no'} open ones that it can complete; "
                "expected :process",
            )
        (invocation,) = alike
        pending.remove(invocation)
        row.fields["process"] = invocation[1].fields["process"]
    notes.append("operations without :process: each one is taken to be of a process of its own")


def _with_invocations(rows: list[OperationMap], notes: list[str]) -> list[OperationMap]:
    """Let each operation of a history of completions begin as early as it can: when its process's last one ended."""
    clients = [row for row in rows if row.is_client]
    if len(clients) < 2 or not all(row.kind in ("ok", "fail", "info") and row.has_caller for row in clients):
        return rows
    before: dict[str, int] = {}
    begins: dict[int, list[OperationMap]] = {}
    for place, row in enumerate(rows):
        if row.is_client:
            process = row.fields.get("process", "")
            begins.setdefault(before.get(process, -1), []).append(row._replace(fields=_as_invocation(row.fields)))
            before[process] = place
    out = list(begins.get(-1, ()))
    for place, row in enumerate(rows):
        out += [row, *begins.get(place, ())]
    for row in out:
        for name in ("index", "time"):
            row.fields.pop(name, None)
    notes.append("completions only: each operation is taken to begin when the one before it, of its process, ended")
    return out


def _as_invocation(fields: dict[str, str]) -> dict[str, str]:
    """Return the request of a completion, as far as it tells; what a read returned was not asked."""
    request = {name: text for name, text in fields.items() if name != "error"} | {"type": ":invoke"}
    if fields.get("f", "").strip('":') == "read":
        request["value"] = re.sub(r"\A(\[\S+ ).*\]\Z", r"\1nil]", fields.get("value", "nil"), flags=re.DOTALL)
        request["value"] = request["value"] if request["value"].endswith(" nil]") else "nil"
    elif "value" in fields:
        request["value"] = _READ.sub(r"[\1 \2 nil]", fields["value"])
    return request


def _number_processes(rows: list[OperationMap], notes: list[str]) -> None:
    """Number processes that have names, after those that have numbers."""
    names = dict.fromkeys(row.fields["process"] for row in rows if row.is_client and "process" in row.fields)
    numbers = [int(name.rstrip("N")) for name in names if _INTEGER.fullmatch(name)]
    named = [name for name in names if not _INTEGER.fullmatch(name) and name[0] in ':"']
    number_of = {name: str(max(numbers, default=-1) + 1 + i) for i, name in enumerate(named)}
    for row in rows:
        process = row.fields.get("process", "")
        row.fields.update(
            {"process": ":nemesis" if process in _NEMESIS else number_of.get(process, process)} if process else {}
        )
    if named:
        shown = ", ".join(f"{name} is {number_of[name]}" for name in named[:5])
        notes.append(f"processes have names: {shown}{', ...' if len(named) > 5 else ''}")


# --- to the reader


def _columns(rows: list[OperationMap], source: str) -> EdnEvents:
    texts = [
        f"{{{' '.join(f':{name} {text}' for name, text in row.fields.items() if _is_known(name))}}}\n" for row in rows
    ]
    starts = list(accumulate((text.count("\n") for text in texts), initial=1))

    def row_of(line: int) -> OperationMap:
        return rows[min(bisect_right(starts, line), len(rows)) - 1]

    try:
        events: EdnEvents = registry.native("edn")(io.BytesIO("".join(texts).encode()).read)
    except ValueError as error:
        if len(error.args) != 3:
            raise
        row = row_of(error.args[0])
        message = _LINE.sub(lambda match: f"line {row_of(int(match[1])).line}", error.args[2])
        raise malformed(source, row.line, row.column, message) from None
    which = np.searchsorted(np.array(starts), events.line, side="right") - 1
    lines, columns = (
        (np.array(numbers, dtype=np.uint32) for numbers in zip(*((r.line, r.column) for r in rows), strict=True))
        if rows
        else (events.line, events.column)
    )
    placed: Any = SimpleNamespace(**{name: getattr(events, name) for name in _COLUMNS})
    placed.line, placed.column = lines[which], columns[which]
    events_placed: EdnEvents = placed
    return events_placed


def _is_known(name: str) -> bool:
    return name in ("index", "time", "type", "process", "f", "value", "error", "node", "key")
