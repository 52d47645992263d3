"""What a store answered is judged: an answer that no correct object gives is a violation, whatever its type.

What the harness asked for is validated, and refused with its line.
"""

import io
import json
import random
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from fencepost.checkers.confirm import confirm
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, OpEvent, Outcome
from fencepost.harness.interchange.formats.edn import edn_text
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.interchange.formats.imported import Imported, json_text
from fencepost.harness.interchange.formats.jepsen import read_edn
from fencepost.harness.interchange.formats.porcupine import read_porcupine, write_porcupine
from fencepost.harness.interchange.formats.recognise import read_foreign
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.judging.stand_alone import document, judge_foreign
from fencepost.harness.plugins import registry
from fencepost.harness.results.columns import write_parquet
from fencepost.harness.verdict import Validity
from tests.checkers.objects.object_twins import TWINS, Twin
from tests.checkers.objects.test_object_proofs import drawn, judged, kept
from tests.checkers.objects.test_objects import facts
from tests.interchange.formats.test_objects import both
from tests.interchange.formats.test_objects import edn as lines_of
from tests.interchange.formats.test_objects import judged as judged_edn

Call = tuple[str, Any, Any]
#: A correct history of each model, one operation after the other: function, request, answer.
MODELS: Final[dict[str, list[Call]]] = {
    "register": [("write", 1, 1), ("read", None, 1)],
    "cas-register": [("write", 1, 1), ("cas", [1, 2], [1, 2]), ("read", None, 2)],
    "counter": [("add", 1, 1), ("read", None, 1)],
    "counter:5": [("add", 1, 1), ("read", None, 6)],
    "set": [("add", 1, 1), ("read", None, [1])],
    "set-full": [("add", 1, 1), ("read", None, [1])],
    "grow-only-set": [("add", 1, 1), ("contains", 1, True), ("read", None, [1])],
    "queue": [("enqueue", 1, 1), ("dequeue", None, 1), ("enqueue", 2, 2), ("drain", None, [2])],
    "bank": [
        ("read", None, {"0": 5, "1": 5}),
        ("transfer", {"from": "0", "to": "1", "amount": 5}, None),
        ("read", None, {"0": 0, "1": 10}),
    ],
    "key-value": [("put", "a", None), ("append", "b", None), ("get", None, "ab")],
    'key-value:"c"': [("append", "b", None), ("get", None, "cb")],
    "append-log": [("append", 7, [0, 7]), ("read", 0, [0, 7])],
    "fenced-mutex": [("acquire", None, 1), ("release", None, None), ("acquire", None, 2)],
    "semaphore:2": [("acquire", 2, 2), ("release", 2, 2), ("acquire", None, None), ("release", None, 1)],
    "multi-register": [("txn", [["w", "x", 1]], [["w", "x", 1]]), ("txn", [["r", "x", None]], [["r", "x", 1]])],
    "rw-register": [("txn", [["w", "x", 1]], [["w", "x", 1]]), ("txn", [["r", "x", None]], [["r", "x", 1]])],
    "list-append": [("txn", [["append", 1, 1]], [["append", 1, 1]]), ("txn", [["r", 1, None]], [["r", 1, [1]]])],
    "log": [("send", [["send", "k", 1]], [["send", "k", [0, 1]]]), ("poll", [["poll"]], [["poll", {"k": [[0, 1]]}]])],
}  # fmt: skip
#: Answers of types that no model has there; a token may be as large as it likes.
STRANGE: Final = [None, "x", 1.5, [1, "x"], {"a": 1}, 2**70]
#: Functions whose answer may be nil: it says nothing, where the request says all.
_SILENT: Final = frozenset({"write", "cas", "add", "enqueue", "transfer", "release", "send", "poll", "drain"})

BENT: Final = [
    (model, place, answer)
    for model, calls in MODELS.items()
    for place, (f, request, result) in enumerate(calls)
    if (model, f) != ("fenced-mutex", "release")
    for answer in STRANGE
    if answer != result and (model, answer) != ("fenced-mutex", 2**70)
    and (answer is not None or (f not in _SILENT and "semaphore" not in model))
    and not (f == "txn" and answer is None and "r" not in [micro[0] for micro in request])
]  # fmt: skip


def bent(model: str, place: int, answer: Any) -> list[Call]:
    calls = list(MODELS[model])
    f, request, _ = calls[place]
    calls[place] = f, request, answer
    return calls


def read_as(form: str, model: str | None, calls: list[Call], folder: Path) -> Imported:
    events = [
        OpEvent(index=2 * i + done, time_ns=2 * i + done, process=0, node="n1", f=f, type=kind, value=value)
        for i, (f, request, result) in enumerate(calls)
        for done, kind, value in ((0, Outcome.INVOKE, request), (1, Outcome.OK, result))
    ]
    if form == "edn":
        text = "\n".join(
            f"{{:type :{e.type.value}, :process 0, :f :{e.f}, :value {edn_text(e.value)}}}" for e in events
        )
        return read_edn(io.BytesIO(text.encode()), "a.edn", model=model, keyed=False)
    path = folder / f"a.{form}"
    if form == "jsonl":
        path.write_text("".join(json_text(event) + "\n" for event in events))
    else:
        write_parquet(events, path)
    return read_foreign(path, model=model)


def assert_violated(found: Imported, answer: Any = ...) -> Judgement:
    judgement = judge_foreign(found, "a")
    (verdict,) = judgement.verdicts
    assert judgement.validity is Validity.INVALID and verdict.anomalies and verdict.witnesses, verdict
    confirm(found.history, document(found, judgement, "a"))
    if answer is not ... and "impossible-answer" in verdict.anomalies:
        text = edn_text(answer) if found.form == "edn" else json_text(answer)
        assert any(" has its answer in " in step and text in step for step in verdict.witnesses[0].steps)
    return judgement


@pytest.mark.parametrize("form", ["edn", "jsonl"])
@pytest.mark.parametrize(("model", "place", "answer"), BENT)
def test_an_answer_of_another_type_is_a_violation(
    form: str, model: str, place: int, answer: Any, tmp_path: Path
) -> None:
    assert_violated(read_as(form, model, bent(model, place, answer), tmp_path), answer)


@pytest.mark.parametrize("form", ["edn", "jsonl", "parquet"])
@pytest.mark.parametrize("model", MODELS)
def test_the_correct_history_is_not_accused(form: str, model: str, tmp_path: Path) -> None:
    judgement = judge_foreign(read_as(form, model, MODELS[model], tmp_path), "a")
    assert judgement.validity is not Validity.INVALID, judgement.verdicts


@pytest.mark.parametrize("answer", STRANGE[1:], ids=str)
def test_parquet_and_porcupine_hold_such_answers_too(answer: Any, tmp_path: Path) -> None:
    for model in ("register", "counter", "bank"):
        place = len(MODELS[model]) - 1
        assert_violated(read_as("parquet", model, bent(model, place, answer), tmp_path), answer)
    for f, model in (("write", "register"), ("add", "set")):
        rows = [
            {"ClientId": 0, "Input": {"op": f, "value": 1}, "Call": 0, "Output": {"ok": True}, "Return": 1},
            {"ClientId": 0, "Input": {"op": "read"}, "Call": 2, "Output": {"value": answer}, "Return": 3},
        ]
        assert_violated(read_porcupine(io.BytesIO(json.dumps(rows).encode()), "a.json", model=model), answer)


WRITE: Final = {"op": "write", "value": 5}
CAS: Final = {"op": "cas", "from": 5, "to": 7}
READ: Final = {"op": "read"}
#: What Porcupine's JSON has as Output of an operation, after an answered write of 5 and before a read of what is right.
PORCUPINE: Final[list[tuple[dict[str, Any], Any, bool]]] = [
    *((WRITE, {"value": value}, False) for value in (7, "5", 5.0, True, [5], {"a": 5}, 0, "")),
    *((WRITE, output, False) for output in (7, "5", [5], {"ok": 5}, {"ok": "true"}, {"value": 7, "ok": True})),
    *((WRITE, output, True) for output in (None, {}, {"ok": None}, {"ok": True}, {"value": 5}, {"value": None}, 5)),
    *((CAS, {"value": value}, False) for value in ("7", [7], 8, True, 7.0, [7, 5], {"a": 7})),
    *((CAS, output, True) for output in (None, {}, {"ok": True}, {"value": 7}, {"value": [5, 7]}, {"value": None})),
    *((READ, output, False) for output in (None, {}, {"ok": True}, {"ok": None}, 7, "7", "5", [5], {"value": None})),
    *((READ, output, False) for output in ({"value": 5, "ok": 1}, {"value": 5, "ok": "x"}, {"value": "5"}, True)),
    *((READ, output, True) for output in ({"value": 5}, {"value": 5, "ok": None}, {"ok": False}, {"unknown": True})),
    (READ, {"ok": False, "value": 9}, True),
]  # fmt: skip


@pytest.mark.parametrize("key", [{}, {"key": "x"}], ids=["no key", "keyed"])
@pytest.mark.parametrize(("request_", "output", "holds"), PORCUPINE)
def test_every_output_of_porcupine_is_judged(
    request_: dict[str, Any], output: Any, holds: bool, key: dict[str, str]
) -> None:
    calls = [(WRITE, {"ok": True}), (request_, output), (READ, {"value": 7 if request_ is CAS else 5})]
    rows = [
        {"ClientId": i, "Input": {**asked, **key}, "Call": 3 * i, "Output": answer, "Return": 3 * i + 1}
        for i, (asked, answer) in enumerate(calls)
    ]
    found = read_porcupine(io.BytesIO(json.dumps(rows).encode()), "a.json")
    if holds:
        assert judge_foreign(found, "a").validity is Validity.VALID
        return
    assert_violated(found)
    again = "".join(write_porcupine(found.history.operations))
    assert_violated(read_porcupine(io.BytesIO(again.encode()), "a.json"))


#: EDN of each model, the anomaly that its last answer shows, and what the witness says.
_ = both
SHOWN: Final[list[tuple[str | None, list[str], str, str]]] = [
    ("bank", _("0 read nil -> {0 50, 1 50}", "0 read nil -> {1 50}"), "wrong-total", "{1 50}"),
    ("bank", _("0 read nil -> {1 50}", "0 read nil -> {0 50, 1 50}"), "impossible-answer", "no account 0"),
    ("bank", _("0 read nil -> {0 50, 1 50}", "0 read nil -> {0 nil, 1 50}"), "impossible-answer", "{0 nil, 1 50}"),
    ("bank", _("0 read nil -> {0 9, 1 9}", "0 read nil -> {0 9, 1 9, 2 0}"), "impossible-answer", "no account 2"),
    ("bank", _("0 read nil -> {0 9, 1 9}", '0 read nil -> {0 9, 1 "9"}'), "impossible-answer", '{0 9, 1 "9"}'),
    (None, _("0 transfer T0 1 5", "0 read nil -> {0 1}"), "impossible-balances", "{0 1}"),
    (None, _("0 add 1", "0 read nil -> 1", "0 read nil -> nil"), "impossible-answer", "line 6, column 1: nil"),
    (None, _("0 add 1", "0 read nil -> 1", '0 read nil -> "1"'), "impossible-answer", 'line 6, column 1: "1"'),
    (None, _("0 enqueue :a", '0 dequeue nil -> ":a"'), "invented-element", 'line 4, column 1: ":a"'),
    (None, _("0 enqueue 1", "0 drain nil -> [nil]"), "impossible-answer", "[nil]"),
    (None, _("0 write :a", '0 read nil -> ":a"'), "phantom-read", 'line 4, column 1: ":a"'),
    (None, _("0 write [1]", "0 read nil -> #{1}"), "phantom-read", "#{1}"),
    (None, _("0 write 1", "0 read nil -> true"), "phantom-read", "true"),
    (None, _("0 write 1", "0 read nil -> 1.0"), "phantom-read", "1.0"),
    (None, _("0 write 1 -> 2", "0 read nil -> 1"), "impossible-answer", "line 2, column 1: 2"),
    (None, _("0 write [1 5]", "0 read [1 nil] -> [2 5]"), "phantom-read", "[2 5]"),
    (None, _("0 write [1 5]", "0 read [1 nil] -> 5"), "phantom-read", "line 4, column 1: 5"),
    (None, _("0 add :a", '0 read nil -> #{":a"}'), "phantom-element", '#{":a"}'),
    (None, _("0 contains 1 -> 1"), "impossible-answer", "expected true or false"),
    ("append-log", _("0 append 1 -> [0 1]", "0 read 1 -> [2 nil]"), "impossible-answer", "[2 nil]"),
    ("rw-register", _("0 txn [[:w 1 :a]]", '0 txn [[:r 1 nil]] -> [[:r 1 ":a"]]'), "garbage-read", "key 1"),
    ("rw-register", _("0 txn [[:w 1 2]]", "0 txn [[:r 1 nil]] -> [[:r 2 2]]"), "impossible-answer", "[[:r 2 2]]"),
    (None, _("0 txn [[:append 1 2]]", "0 txn [[:r 1 nil]] -> [[:r 1 7]]"), "impossible-answer", "[[:r 1 7]]"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "lines", "anomaly", "shown"), SHOWN, ids=[row[3] for row in SHOWN])
def test_the_witness_shows_the_answer_as_the_file_has_it(
    model: str | None, lines: list[str], anomaly: str, shown: str
) -> None:
    judgement = judged_edn(lines, model)
    (verdict,) = judgement.verdicts
    assert judgement.validity is Validity.INVALID and anomaly in verdict.counts, verdict
    assert shown in " ".join(step for witness in verdict.witnesses for step in witness.steps)


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        (None, _("0 read nil -> nil", "0 add 1", "0 read nil -> 1")),
        ("counter", ["0 add 1", *_("1 read nil -> nil"), "0 :ok"]),
        ("grow-only-set", _("0 read nil -> nil", "0 add 1", "0 read nil -> #{1}")),
        (None, _("0 read nil -> {0 5, 1 5}", "0 transfer T0 1 5", "0 read nil -> {1 10}")),
        (None, _("0 write [1]", "0 read nil -> (1)")),
    ],
)
def test_nothing_is_the_empty_object(model: str | None, lines: list[str]) -> None:
    assert judged_edn(lines, model).validity is not Validity.INVALID


@pytest.mark.parametrize("model", ["list-append", "set", "bank", "counter"])
@pytest.mark.parametrize("answer", ["x", {"a": 1}, True], ids=str)
def test_a_broken_answer_hides_no_model(model: str, answer: Any, tmp_path: Path) -> None:
    """The model is recognised by the other answers, wherever the broken one stands."""
    calls = MODELS[model]
    for at in range(len(calls) + 1):
        f, request, _ = calls[-1]
        assert read_as("edn", None, [*calls[:at], (f, request, answer), *calls[at:]], tmp_path).family.name == model


def _named(process: int, kind: str, f: str, key: str, value: str) -> str:
    more = "".join(f", :{name} {text}" for name, text in (("key", key), ("value", value)) if text)
    return f"{{:type :{kind}, :process {process}, :f :{f}{more}}}"


@pytest.mark.parametrize("value", ["5", "nil", "", '"x"'])
@pytest.mark.parametrize("f", ["read", "write"])
def test_an_answer_to_another_key_is_a_violation(f: str, value: str) -> None:
    """As in pairs of key and value, whatever the answer says; one that names no key is one to the key asked for."""
    asked = "5" if f == "write" else "nil"
    others = [_named(1, kind, "write", "2", "5") for kind in ("invoke", "ok")]
    lines = [*others, _named(0, "invoke", f, "1", asked), _named(0, "ok", f, "2", value)]
    judgement = assert_violated(read_edn(io.BytesIO("\n".join(lines).encode()), "a.edn"))
    shown = f"line 4, column 1: :key 2 :value {value or 'nil'}"
    assert shown in judgement.verdicts[0].witnesses[0].steps[-1]
    for kind in ("fail", "info"):
        lines = [*others, _named(0, "invoke", f, "1", asked), _named(0, kind, f, "2", value)]
        found = read_edn(io.BytesIO("\n".join(lines).encode()), "a.edn")
        assert judge_foreign(found, "a").validity is not Validity.INVALID


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("key", "other"), [("1", '"1"'), ('"1"', "1"), (":a", '":a"'), ('":a"', ":a"), ("[1]", "#{1}")]
)
def test_a_key_of_another_kind_is_another_key(named: bool, key: str, other: str) -> None:
    if named:
        calls = [("write", key, key, "5"), ("read", key, other, "5"), ("read", key, key, "5")]
        lines = [
            _named(0, kind, f, on, "nil" if f == "read" and kind == "invoke" else value)
            for f, asked, answered, value in calls
            for kind, on in (("invoke", asked), ("ok", answered))
        ]
        text = "\n".join(lines)
    else:
        text = lines_of(*both(f"0 write [{key} 5]", f"0 read [{key} nil] -> [{other} 5]"))
    assert_violated(read_edn(io.BytesIO(text.encode()), "a.edn"))


@pytest.mark.parametrize("key", ["", "1"])
@pytest.mark.parametrize("wrote", [False, True])
def test_an_answered_read_without_a_value_is_the_read_of_nothing(key: str, wrote: bool) -> None:
    lines = [_named(0, kind, "write", key, "5") for kind in ("invoke", "ok") if wrote]
    lines += [_named(0, "invoke", "read", key, "nil"), _named(0, "ok", "read", key, "")]
    found = read_edn(io.BytesIO("\n".join(lines).encode()), "a.edn", model="register")
    assert (judge_foreign(found, "a").validity is Validity.INVALID) == wrote
    assert found.history.operations[-1].result is None


@pytest.mark.parametrize("before", [[], ["0 read nil -> nil"], ["0 read nil -> 0"]], ids=str)
@pytest.mark.parametrize("answer", ["nil", '"x"', '"1"', ":a", "true", "{0 1}", "{:a 1}"])
def test_additions_are_judged_whatever_the_reads_answer(before: list[str], answer: str) -> None:
    lines = both(*before, "0 add 1", f"0 read nil -> {answer}")
    found = read_edn(io.BytesIO(lines_of(*lines).encode()), "a.edn")
    is_counter = before == ["0 read nil -> 0"]
    assert (found.family.name, bool(found.family.note)) == (("counter", False) if is_counter else ("set", True))
    assert_violated(found)
    assert_violated(read_edn(io.BytesIO(lines_of(*lines).encode()), "a.edn", model="counter"))


@pytest.mark.parametrize("answer", ["{1 50}", "{0 nil, 1 50}", "{}", "nil", '"x"', "7", "[40 50]", "{0 50, 1 50, 2 0}"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_balances_show_a_bank_whatever_else_is_read(answer: str, at: int) -> None:
    reads = ["0 read nil -> {0 50, 1 50}"] * 2
    found = read_edn(io.BytesIO(lines_of(*both(*reads[:at], f"0 read nil -> {answer}", *reads[at:])).encode()), "a.edn")
    assert found.family.name == "bank"
    assert_violated(found)


#: Requests that mean nothing: model, lines, the line that is at fault, what the message says.
WRONG: Final[list[tuple[str | None, list[str], int, str]]] = [
    ("counter", _("0 add 1", '0 add "x"'), 3, "a string"),
    (None, _("0 increment :a"), 1, "the step is"),
    (None, _("0 read nil -> {0 5}", "0 transfer 5"), 3, "expected a map of from, to and amount"),
    (None, _("0 enqueue 1", "0 enqueue"), 3, "the element of an enqueue is missing"),
    ("append-log", _("0 append 1 -> [0 1]", '0 read "x" -> [0 1]'), 3, "the offset of a read"),
    ("multi-register", _("0 txn [[:w 1 2]]", "0 txn [[:append 1 3]]"), 3, "expected r or w"),
    (None, _("0 txn [[:w 1 2]]", "0 txn [[:w 1 nil]]"), 3, "a value to write"),
    (None, _("0 txn [[:append 1 2]]", "0 txn 5"), 3, "micro-operations"),
    ("log", _("0 send [[:send 1 2]]", "0 send 5"), 3, "expected a list of [send key value]"),
    # The number that is too large to be judged stands in the answer.
    ("log", _("0 send [[:send 1 2]] -> [[:send 1 [4611686018427387904 2]]]"), 2,
     "an offset is 4611686018427387904; expected an integer from 0 to 4611686018427387903"),
    ("log", _("0 send [[:send 1 2]]", "0 poll [[:poll]] -> [[:poll {1 [[4611686018427387904 2]]}]]"), 4, "an offset"),
    ("append-log", _("0 append 1 -> [4611686018427387904 1]"), 2, "an offset is 4611686018427387904; expected"),
    ("append-log", _("0 append 1 -> [0 1]", "0 read 4611686018427387904 -> [4611686018427387904 nil]"), 4, "an offset"),
    ("append-log", _("0 append 1 -> nil"), 2, "append returned nothing; expected [offset, value]"),
    (None, _('0 txn [[:w "x" "a"]]', '0 txn [[:w "x" "a"]]'), 3, 'it writes "a" to key "x", as line 1, column 1 does'),
    (None, _("0 txn [[:append :k 7]]", "0 txn [[:append :k 7]]"), 3, "it writes 7 to key :k, as line 1, column 1 does"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "lines", "line", "said"), WRONG, ids=[row[3][:40] for row in WRONG])
def test_a_request_that_means_nothing_is_refused_with_its_line(
    model: str | None, lines: list[str], line: int, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        judged_edn(lines, model)
    assert f"a.edn: line {line}, column 1: " in caught.value.message and said in caught.value.message
    assert "event" not in caught.value.message and caught.value.hint


@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_one_answer_of_another_type_ends_in_a_verdict_that_can_be_confirmed(twin: Twin) -> None:
    """Random histories without a violation, one answer replaced: it is refused nowhere, and every proof holds."""
    invalid = 0
    for seed in range(12):
        operations = drawn(twin, f"answers {seed}", 10, bent=False)
        rng = random.Random(seed)
        answered = [i for i, op in enumerate(operations) if op.type is Outcome.OK]
        if not answered:
            continue
        place, answer = rng.choice(answered), rng.choice(["x", 1.5, [[]], {"a": []}])
        changed = list(operations)
        changed[place] = msgspec.structs.replace(changed[place], result=answer)
        history = History([]).with_operations(changed)
        for model in twin.models:
            assert not judged(model, operations).anomalies
            family = choose(model, (), lambda f: (), "a test")
            (verdict,) = registry.checker(family.checker)(history, facts(family.parameter))
            confirm(history, kept(verdict))
            invalid += verdict.validity is Validity.INVALID
    assert invalid or any("mutex" in model for model in twin.models)


@pytest.mark.parametrize("answers", [("nil",), ("nil", "nil"), ("{}", "nil"), ("nil", "1"), ('"x"', "nil")], ids=str)
def test_an_acquire_without_a_token_is_a_violation_of_a_fenced_mutex(answers: tuple[str, ...]) -> None:
    """Also where no acquire has one."""
    lines = [line for answer in answers for line in both(f"0 acquire nil -> {answer}", "0 release")]
    found = read_edn(io.BytesIO(lines_of(*lines).encode()), "a.edn", model="fenced-mutex")
    assert "line 2, column 1: " in assert_violated(found).verdicts[0].witnesses[0].steps[-1]


@pytest.mark.parametrize(
    ("asked", "answer"), [("nil", 7), ("nil", 0), ("nil", 2), ("2", 1), ("2", 7), ("1", -1), ("0", 1)]
)
@pytest.mark.parametrize("f", ["acquire", "release"])
def test_other_permits_than_were_asked_for_are_a_violation(f: str, asked: str, answer: int) -> None:
    lines = both(*["0 acquire 2"] * (f == "release"), f"0 {f} {asked} -> {answer}")
    assert_violated(read_edn(io.BytesIO(lines_of(*lines).encode()), "a.edn", model="semaphore:4"), answer)


def test_the_lines_are_those_of_the_file() -> None:
    text = "; a head\n\n" + lines_of(*_("0 add 1", "0 read nil -> 1", "0 read nil -> :x")).replace("\n", "\n\n")
    found = read_edn(io.BytesIO(text.encode()), "a.edn")
    assert "line 13, column 1: :x" in assert_violated(found).verdicts[0].witnesses[0].steps[-1]
