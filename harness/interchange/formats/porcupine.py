"""Reader and writer of JSON lists with the fields of Porcupine's `Operation`: ClientId, Input, Call, Output, Return.

Porcupine itself stores no files, and its users choose the shape of input and output. This module reads and writes an
array of such objects, or one object per line, with names in upper or lower case; Input is {"op": "read" | "write" |
"cas" | "add", "key", "value", "from", "to"}, Output is {"value", "ok", "unknown"}. Call and Return are inclusive: an
operation that ends when another begins is concurrent with it. An operation without Return, or with an unknown output,
may take effect at any time after its call.
"""

import json
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import Event, Operation, OpEvent, Outcome
from fencepost.harness.interchange.formats.edn import malformed
from fencepost.harness.interchange.formats.family import choose, sampler
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory, InFile, check_values, json_text
from fencepost.harness.interchange.formats.json_objects import json_objects, utf8

FORM: Final = "porcupine"
#: The names that users of Porcupine give to each function.
_FUNCTIONS: Final = {"get": "read", "put": "write", "set": "write", "compareandswap": "cas", "compareandset": "cas"}
_FIELDS: Final = {"clientid", "input", "call", "output", "return", "metadata"}
_INPUT: Final = {"op", "key", "value", "from", "to"}
_OUTPUT: Final = {"value", "ok", "unknown"}
_ASKED: Final[dict[str, set[str]]] = {"read": set(), "write": {"value"}, "add": {"value"}, "cas": {"from", "to"}}


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of the list; `returned` is None if it is unknown when or whether it took effect."""

    line: int
    column: int
    client: int | None
    f: str
    key: str | None
    value: Any
    called: int
    returned: int | None
    type: Outcome
    result: Any
    #: What the file has as the answer.
    shown: Any


def read_porcupine(stream: BinaryIO, source: str, *, model: str | None = None) -> Imported:
    """Read and check the list in `stream`; raise UsageError with the position for a list without a meaning."""
    calls = [
        _call(source, line, column, entry) for line, column, entry in json_objects(utf8(stream.read(), source), source)
    ]
    some = next((call for call in calls if (call.client is None) != (calls[0].client is None)), None)
    if some is not None:
        raise malformed(source, some.line, some.column, "expected ClientId in all operations, or in none")
    events, origins = _events(calls, _processes(calls, source))
    functions = {call.f for call in calls}
    family = choose(model, functions, sampler(events), source)
    keyless = next((call for call in calls if (call.key is None) != (calls[0].key is None)), None)
    if keyless is not None:
        raise malformed(source, keyless.line, keyless.column, "expected a key in all inputs, or in none")

    def place(event: int) -> str:
        return f"line {origins[event].line}, column {origins[event].column}"

    in_file = InFile(place, lambda event: json_text(origins[event].shown))
    history = ImportedHistory(events, family, source=source, in_file=in_file)
    check_values(history, lambda event: f"{source}: {place(event)}")
    return Imported(history=history, form=FORM, keyed=any(call.key is not None for call in calls))


# --- one operation


def _call(source: str, line: int, column: int, entry: Any) -> _Call:
    def wrong(message: str) -> MalformedHistory:
        return malformed(source, line, column, message)

    def fields(value: Any, name: str, known: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong(f"{name} is {value!r:.60}; expected an object")
        low = {key.lower().replace("_", ""): item for key, item in value.items()}
        strange = sorted(low.keys() - known)
        if strange or len(low) != len(value):
            raise wrong(f"{name} with {', '.join(strange) or 'a name twice'}; expected {', '.join(sorted(known))}")
        return low

    def time_of(name: str, value: Any) -> int:
        if type(value) is not int or not -(2**62) <= value < 2**62:
            raise wrong(f"{name} is {value!r:.60}; expected an integer time of less than 62 bits")
        return value

    whole = fields(entry, "an operation", _FIELDS)
    lacking = [name for name in ("Input", "Call") if name.lower() not in whole]
    if lacking:
        raise wrong(f"an operation without {' and '.join(lacking)}; expected ClientId, Input, Call, Output, Return")
    request = fields(whole["input"], "Input", _INPUT)
    word = request.get("op")
    f = _FUNCTIONS.get(str(word).lower().replace("-", "").replace("_", ""), str(word).lower())
    if not isinstance(word, str) or f not in _ASKED:
        raise wrong(f"Input's op is {word!r:.60}; expected read, write, cas or add")
    needed = _ASKED[f]
    if not needed <= request.keys() or {
        name for name in request.keys() - needed - {"op", "key"} if request[name] is not None
    }:
        raise wrong(
            f"Input of {f} has {', '.join(sorted(request))}; expected op, key, {', '.join(sorted(needed)) or 'no more'}"
        )
    client = whole.get("clientid")
    if client is not None and (type(client) is not int or not 0 <= client < 2**31):
        raise wrong(f"ClientId is {client!r:.60}; expected an integer from 0")
    key = request.get("key")
    if key is not None and not isinstance(key, (str, int)):
        raise wrong(f"Input's key is {key!r:.60}; expected a string or an integer")
    called = time_of("Call", whole["call"])
    returned = None if whole.get("return") is None else time_of("Return", whole["return"])
    if returned is not None and returned < called:
        raise wrong(f"Return {returned} is earlier than Call {called}; expected Call or later")
    answer = whole.get("output")
    # An output that is no object is all that was answered.
    output = fields(answer, "Output", _OUTPUT) if isinstance(answer, dict) else {"value": answer}
    if not isinstance(output.get("unknown") or False, bool):
        raise wrong(f"Output's unknown is {output['unknown']!r:.60}; expected true or false")
    ok, value = output.get("ok"), output.get("value")
    if ok is not None and not isinstance(ok, bool):
        value = {"an answer that is neither ok nor failed": ok}
    requested: Any = [request["from"], request["to"]] if f == "cas" else request.get("value")
    if f != "read" and (value is None or (f == "cas" and json_text(value) == json_text(requested[1]))):
        value = requested
    return _Call(
        line=line,
        column=column,
        client=client,
        f=f,
        key=None if key is None else str(key),
        value=requested,
        called=called,
        returned=returned,
        type=Outcome.INFO if output.get("unknown") or returned is None else Outcome.FAIL if ok is False else Outcome.OK,
        result=value,
        shown=output["value"] if output.keys() == {"value"} else answer,
    )


# --- operations to events


def _processes(calls: Sequence[_Call], source: str) -> list[int]:
    """Give each operation a process: its client's process, or a new one if that one is not free.

    Two operations of a client of which one ends when the other begins are concurrent, as in Porcupine. Two that overlap
    are refused, unless all operations name the same client, as happens when the file names no clients. After an unknown
    outcome a client continues as another process.
    """
    named = len({call.client for call in calls}) > 1
    lines: dict[int | None, _Line] = {}
    entry = [0] * len(calls)
    unused = 1 + max((call.client or 0 for call in calls), default=0)
    for i in sorted(range(len(calls)), key=lambda i: (calls[i].called, i)):
        call = calls[i]
        client = call.client if named else None
        line = lines.setdefault(client, _Line([] if client is None else [client], []))
        while line.busy and line.busy[0][0] < call.called:
            line.free.append(heappop(line.busy)[1])
        for returned, _, other in line.busy:
            if named and returned > call.called:
                raise malformed(
                    source,
                    call.line,
                    call.column,
                    f"client {client} calls at {call.called} while its operation of line {calls[other].line} is open "
                    f"until {returned}; expected at most one open operation per client",
                )
        if line.free:
            entry[i] = line.free.pop()
        else:
            entry[i], unused = unused, unused + 1
        if call.returned is not None and call.type is not Outcome.INFO:
            heappush(line.busy, (call.returned, entry[i], i))
    return entry


class _Line(NamedTuple):
    """One client's processes: the free ones, and (until, process, operation) of the busy ones."""

    free: list[int]
    busy: list[tuple[int, int, int]]


def _events(calls: Sequence[_Call], processes: Sequence[int]) -> tuple[list[Event], list[_Call]]:
    """Return events in the order of time, calls first among equal times; and the operation of each event."""
    zero = min((call.called for call in calls), default=0)
    moments = [(call.called, 0, i) for i, call in enumerate(calls)]
    moments += [
        (call.returned, 1, i)
        for i, call in enumerate(calls)
        if call.returned is not None and call.type is not Outcome.INFO
    ]
    events: list[Event] = []
    for index, (time, ends, i) in enumerate(sorted(moments)):
        call = calls[i]
        events.append(
            OpEvent(
                index=index,
                time_ns=time - min(zero, 0),
                type=call.type if ends else Outcome.INVOKE,
                process=processes[i],
                f=call.f,
                node="",
                key=call.key,
                value=call.result if ends and call.type is Outcome.OK else call.value,
            )
        )
    return events, [calls[i] for _, _, i in sorted(moments)]


# --- writing


def write_porcupine(operations: Sequence[Operation]) -> Iterator[str]:
    """Write an array with one operation per line; failed operations are left out, because Porcupine has none.

    Raises UsageError for an operation that belongs to neither a register nor a set.
    """
    kept = [op for op in operations if op.type is not Outcome.FAIL]
    times = sorted(time for op in kept for time in (op.invoked_ns, op.completed_ns) if time is not None)
    # Intervals are inclusive, so equal times would make successive operations concurrent: write event indexes as times.
    by_place = any(one == other for one, other in pairwise(times))
    end = 1 + max((op.complete_index or op.invoke_index for op in kept), default=0)
    end = end if by_place else 1 + max(times, default=0)
    last = len(kept) - 1
    yield "[\n"
    for i, op in enumerate(kept):
        known = op.type is Outcome.OK
        called, returned = (op.invoke_index, op.complete_index) if by_place else (op.invoked_ns, op.completed_ns)
        entry = {
            "ClientId": op.process,
            "Input": _input(op),
            "Call": called,
            "Output": _output(op) if known else {"unknown": True},
            "Return": returned if known else end,
        }
        yield json.dumps(entry, allow_nan=False) + ("\n" if i == last else ",\n")
    yield "]\n"


def _output(op: Operation) -> dict[str, Any]:
    silent = op.result is None or json_text(op.result) == json_text(op.value)
    return {"ok": True} if silent and op.f not in ("read", "members") else {"value": op.result}


def _input(op: Operation) -> dict[str, Any]:
    key = {} if op.key is None else {"key": op.key}
    match op.f:
        case "read" | "members":
            return {"op": "read", **key}
        case "write" | "add":
            return {"op": op.f, **key, "value": op.value}
        case "cas":
            return {"op": op.f, **key, "from": op.value[0], "to": op.value[1]}
        case _:
            raise UsageError(
                f"event {op.invoke_index}: {op.f} has no form in Porcupine; expected read, write, cas or add",
                hint="--format edn or jsonl can hold every operation",
            )
