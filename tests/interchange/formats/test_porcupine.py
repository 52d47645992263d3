"""Operation lists in JSON with Porcupine's fields: read, refused, written."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import History, OpEvent, Outcome, pair
from fencepost.harness.interchange.formats.imported import Imported
from fencepost.harness.interchange.formats.porcupine import read_porcupine, write_porcupine


def read(text: str | bytes) -> Imported:
    return read_porcupine(io.BytesIO(text.encode() if isinstance(text, str) else text), "a.json")


def op(client: int | None, f: str, call: Any, ret: Any, **more: Any) -> dict[str, Any]:
    output = more.pop("output", {"value": more.pop("value")} if f == "read" and "value" in more else {})
    found = {"Input": {"op": f, **more}, "Call": call, "Output": output, "Return": ret}
    return found if client is None else {"ClientId": client, **found}


def lines(*ops: dict[str, Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in ops)


_SOME = (
    op(0, "write", 0, 10, value=1),
    op(1, "read", 5, 15, value=1),
    op(0, "cas", 12, 20, **{"from": 1, "to": 2}),
    op(1, "write", 30, None, value=3),
    op(1, "read", 40, 50, value=2),
)


def test_an_array_and_one_a_line_are_the_same() -> None:
    for text in (lines(*_SOME), json.dumps(_SOME), json.dumps(_SOME, indent=1)):
        found = read(text)
        assert (found.family.name, found.keyed) == ("cas-register", False)
        assert [(o.process, o.f, o.type.value, o.value, o.result) for o in found.history.operations] == [
            (0, "write", "ok", 1, 1),
            (1, "read", "ok", None, 1),
            (0, "cas", "ok", [1, 2], [1, 2]),
            (1, "write", "info", 3, None),
            (2, "read", "ok", None, 2),
        ]


def test_names_and_words_of_others() -> None:
    text = '{"clientId": 0, "input": {"op": "Put", "key": "x", "value": "a"}, "call": 1, "output": null, "return": 2}'
    found = read(
        text
        + text.replace("Put", "get")
        .replace(', "value": "a"', "")
        .replace("null", '{"value": "a"}')
        .replace(": 1", ": 3")
        .replace(": 2", ": 4")
    )
    assert [(o.f, o.key, o.result) for o in found.history.operations] == [("write", "x", "a"), ("read", "x", "a")]


def test_intervals_that_touch_are_concurrent() -> None:
    found = read(
        lines(op(0, "write", 0, 10, value=1), op(0, "read", 10, 20, value=None), op(1, "read", 30, 31, value=1))
    )
    first, second, _ = found.history.operations
    assert second.invoke_index < (first.complete_index or 0)
    assert first.process != second.process


def test_one_client_for_all_names_none() -> None:
    found = read(
        lines(op(0, "write", 0, 10, value=1), op(0, "read", 5, 20, value=None), op(0, "read", 30, 31, value=1))
    )
    assert len({o.process for o in found.history.operations}) == 2


def test_an_unknown_output_stays_open() -> None:
    found = read(
        lines(
            op(0, "write", 0, 100, value=1, output={"unknown": True}),
            op(0, "read", 5, 9, value=1),
            op(1, "read", 6, 7, value=1),
        )
    )
    assert found.history.operations[0].type is Outcome.INFO
    assert found.history.operations[0].complete_index is None


def test_what_is_answered_false_failed() -> None:
    found = read(
        lines(
            op(0, "cas", 0, 5, output={"ok": False}, **{"from": 1, "to": 2}),
            op(1, "read", 6, 7, output={"ok": False}),
            op(1, "read", 8, 9, value=None),
        )
    )
    assert [o.type for o in found.history.operations] == [Outcome.FAIL, Outcome.FAIL, Outcome.OK]


def test_times_below_zero_are_shifted() -> None:
    events = read(lines(op(0, "read", -5, 3, value=None))).history.events
    assert [event.time_ns for event in events] == [0, 8]


def test_nothing_is_an_empty_history() -> None:
    assert not any(len(read(text).history.events) for text in ("", "[]", " [ ] \n"))


_ONE = json.dumps(_SOME[0])
_BAD: list[tuple[str | bytes, int, int, str]] = [
    (b'{"Input": "\xff"}', 1, 12, "0xff is not UTF-8"),
    (_ONE[:-1], 1, len(_ONE), "truncated"),
    (f"[{_ONE}", 1, len(_ONE) + 2, "truncated"),
    (f"[{_ONE},", 1, len(_ONE) + 3, "truncated"),
    (f"[{_ONE},]", 1, len(_ONE) + 3, "expected `,` and another operation, or `]`"),
    (f"[{_ONE} {_ONE}]", 1, len(_ONE) + 3, "expected `,`"),
    (f"[{_ONE}] 5", 1, len(_ONE) + 4, "text after the end of the list"),
    (f"{_ONE}\n 5", 2, 2, "an operation is 5; expected an object"),
    (f"{_ONE}\n{{}}", 2, 1, "without Input and Call"),
    ('{"Call": 1, "call": 2}', 1, 1, "a name twice"),
    ('{"Call": 1, "Call": 2}', 1, 1, "the name 'Call' occurs twice in one object"),
    ('{"Call": NaN}', 1, 1, "NaN is not a JSON value"),
    ('{"Call": ' + "9" * 5000 + "}", 1, 1, "an integer of 5000 digits"),
    ("[" * 200_000, 1, 2, "nested too deeply"),
    (lines({**_SOME[0], "Cal": 1}), 1, 1, "an operation with cal; expected"),
    (lines(op(0, "frob", 0, 1)), 1, 1, "Input's op is 'frob'; expected read, write, cas, add or append"),
    (lines(op(0, "write", 0, 1)), 1, 1, "Input of write has op; expected op, key, value"),
    (lines(op(0, "read", 0, 1, output={"unknown": 5})), 1, 1, "Output's unknown is 5; expected true or false"),
    (lines(op(0, "write", 1.5, 2, value=1)), 1, 1, "Call is 1.5; expected an integer time"),
    (lines(op(0, "write", 2**80, 2, value=1)), 1, 1, "expected an integer time of less than 62 bits"),
    (lines(op(0, "write", 5, 2, value=1)), 1, 1, "Return 2 is earlier than Call 5"),
    (lines(op(-1, "write", 5, 6, value=1)), 1, 1, "ClientId is -1"),
    (
        lines(op(0, "write", 5, 6, value=1), op(None, "write", 5, 6, value=1)),
        2,
        1,
        "ClientId in all operations, or in none",
    ),
    (
        lines(op(0, "write", 5, 6, value=1), op(1, "write", 5, 6, value=1, key="x")),
        2,
        1,
        "a key in all inputs, or in none",
    ),
    (
        lines(*_SOME[:2], op(0, "read", 8, 9, value=1)),
        3,
        1,
        "client 0 calls at 8 while its operation of line 1 is open until 10",
    ),
    (
        lines(*_SOME[:2], op(0, "write", 18, 19, value="1")),
        3,
        1,
        "'1' is a string; expected an integer as at a.json: line 1",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), _BAD, ids=[row[3][:50] for row in _BAD])
def test_what_is_refused_is_refused_at_its_place(text: str | bytes, line: int, column: int, said: str) -> None:
    with pytest.raises(MalformedHistory) as caught:
        read(text)
    assert f"a.json: line {line}, column {column}: " in caught.value.message
    assert said in caught.value.message


def test_what_is_written_is_read_again() -> None:
    found = read(lines(*_SOME))
    again = read("".join(write_porcupine(pair(found.history.events))))
    assert list(again.history.events) == list(found.history.events)


def test_what_failed_is_left_out_and_what_has_no_form_refused() -> None:
    failed = read(lines(*_SOME, op(0, "cas", 60, 70, output={"ok": False}, **{"from": 1, "to": 2})))
    assert len(json.loads("".join(write_porcupine(pair(failed.history.events))))) == len(_SOME)
    sent = [OpEvent(index=0, time_ns=5, type=Outcome.INVOKE, process=0, f="enqueue", node="n1", value=1)]
    with pytest.raises(UsageError, match="enqueue has no form"):
        list(write_porcupine(History(sent).operations))


def test_a_set() -> None:
    added = read(lines(op(0, "add", 0, 1, value=1), op(1, "read", 2, 3, output={"value": [1]})))
    assert added.family.name == "set"
    again = read("".join(write_porcupine(pair(added.history.events))))
    assert list(again.history.events) == list(added.history.events)


def test_a_key_value_store() -> None:
    appended = read(
        lines(op(0, "Put", 0, 1, value="a"), op(1, "append", 2, 3, value="b"), op(1, "get", 4, 5, output="ab"))
    )
    assert appended.family.name == "key-value"
    again = read("".join(write_porcupine(pair(appended.history.events))))
    assert list(again.history.events) == list(appended.history.events)


def test_events_at_one_time_are_written_by_their_places() -> None:
    events = [
        OpEvent(index=0, time_ns=5, type=Outcome.INVOKE, process=0, f="write", node="n1", value=1),
        OpEvent(index=1, time_ns=5, type=Outcome.OK, process=0, f="write", node="n1", value=1),
        OpEvent(index=2, time_ns=5, type=Outcome.INVOKE, process=1, f="read", node="n1"),
        OpEvent(index=3, time_ns=5, type=Outcome.OK, process=1, f="read", node="n1", value=1),
    ]
    written = json.loads("".join(write_porcupine(History(events).operations)))
    assert [(each["Call"], each["Return"]) for each in written] == [(0, 1), (2, 3)]


@given(st.binary(max_size=120) | st.text(alphabet='{}[],:"0123456789.eCalInput \n', max_size=60).map(str.encode))
def test_whatever_the_bytes_the_answer_is_a_history_or_a_place(data: bytes) -> None:
    said = "a.json"
    try:
        read(data)
    except UsageError as error:
        said = error.message
    assert "a.json" in said
