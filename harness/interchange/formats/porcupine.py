"""Reader and writer of JSON lists with the fields of Porcupine's `Operation`: ClientId, Input, Call, Output, Return.

Porcupine itself stores no files, and its users choose the shape of input and output. This module reads and writes an
array of such objects, or one object per line, with names in upper or lower case; Input is {"op": "read" | "write" |
"cas" | "add" | "append", "key", "value", "from", "to"}, Output is {"value", "ok", "unknown"}. Call and Return are
inclusive: an operation that ends when another begins is concurrent with it. An operation without Return, or with an
unknown output, may take effect at any time after its call.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.interchange.formats.calls import Call, CallEvents
from fencepost.harness.interchange.formats.edn import malformed
from fencepost.harness.interchange.formats.family import ModelChoice, choose, sampler
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory, InFile, check_values, json_text
from fencepost.harness.interchange.formats.json_objects import json_objects, utf8

FORM: Final = "porcupine"
#: The names that users of Porcupine give to each function.
_FUNCTIONS: Final = {"get": "read", "put": "write", "set": "write", "compareandswap": "cas", "compareandset": "cas"}
_FIELDS: Final = {"clientid", "input", "call", "output", "return", "metadata"}
_INPUT: Final = {"op", "key", "value", "from", "to"}
_OUTPUT: Final = {"value", "ok", "unknown"}
_ASKED: Final[dict[str, set[str]]] = {
    "read": set(),
    **{f: {"value"} for f in ("write", "add", "append")},
    "cas": {"from", "to"},
}
#: The names where values are appended too.
_OF_STRINGS: Final = {"read": "get", "write": "put"}


class _Entry(NamedTuple):
    """One operation of the list; `answer` is what the file has as the answer."""

    line: int
    column: int
    call: Call
    answer: Any


def read_porcupine(stream: BinaryIO, source: str, *, model: ModelChoice = None) -> Imported:
    """Read and check the list in `stream`; raise UsageError with the position for a list without a meaning."""
    entries = [
        _entry(source, line, column, item) for line, column, item in json_objects(utf8(stream.read(), source), source)
    ]
    some = next((e for e in entries if (e.call.client is None) != (entries[0].call.client is None)), None)
    if some is not None:
        raise malformed(source, some.line, some.column, "expected ClientId in all operations, or in none")
    calls = [entry.call for entry in entries]
    if len({call.client for call in calls}) == 1:
        # The file names no clients.
        calls = [msgspec.structs.replace(call, client=None) for call in calls]

    if (isinstance(model, str) and model.partition(":")[0] == "key-value") or (
        model is None and any(call.f == "append" for call in calls)
    ):
        calls = [msgspec.structs.replace(call, f=_OF_STRINGS.get(call.f, call.f)) for call in calls]

    def refuse(i: int, other: int) -> MalformedHistory:
        return malformed(
            source,
            entries[i].line,
            entries[i].column,
            f"client {calls[i].client} calls at {calls[i].started} while its operation of line {entries[other].line} "
            f"is open until {calls[other].ended}; expected at most one open operation per client",
        )

    events = CallEvents(calls, refuse)
    family = choose(model, {call.f for call in calls}, sampler(events), source)
    keyless = next((e for e in entries if (e.call.key is None) != (entries[0].call.key is None)), None)
    if keyless is not None:
        raise malformed(source, keyless.line, keyless.column, "expected a key in all inputs, or in none")

    def place(event: int) -> str:
        entry = entries[events.call_of(event)]
        return f"line {entry.line}, column {entry.column}"

    in_file = InFile(place, lambda event: json_text(entries[events.call_of(event)].answer))
    history = ImportedHistory(events, family, source=source, in_file=in_file)
    check_values(history, lambda event: f"{source}: {place(event)}")
    return Imported(history=history, form=FORM, keyed=any(call.key is not None for call in calls))


# --- one operation


def _entry(source: str, line: int, column: int, entry: Any) -> _Entry:
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
        raise wrong(f"Input's op is {word!r:.60}; expected read, write, cas, add or append")
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
    is_unknown = output.get("unknown") or returned is None
    call = Call(
        client=None if client is None else str(client),
        f=f,
        key=None if key is None else str(key),
        value=requested,
        result=value,
        started=called,
        ended=None if is_unknown else returned,
        type=Outcome.INFO if is_unknown else Outcome.FAIL if ok is False else Outcome.OK,
    )
    return _Entry(line, column, call, output["value"] if output.keys() == {"value"} else answer)


# --- writing


def write_porcupine(operations: Sequence[Operation]) -> Iterator[str]:
    """Write an array with one operation per line; failed operations are left out, because Porcupine has none.

    Raises UsageError for an operation that belongs to no register, set or key-value store.
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
    return {"ok": True} if silent and op.f not in ("read", "members", "get") else {"value": op.result}


def _input(op: Operation) -> dict[str, Any]:
    key = {} if op.key is None else {"key": op.key}
    match op.f:
        case "read" | "members":
            return {"op": "read", **key}
        case "get":
            return {"op": "get", **key}
        case "write" | "add" | "put" | "append":
            return {"op": op.f, **key, "value": op.value}
        case "cas":
            return {"op": op.f, **key, "from": op.value[0], "to": op.value[1]}
        case _:
            raise UsageError(
                f"event {op.invoke_index}: {op.f} has no form in Porcupine; expected read, write, cas, add, get, "
                "put or append",
                hint="--format edn or jsonl can hold every operation",
            )
