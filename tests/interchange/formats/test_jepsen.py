"""Histories as Jepsen writes them: what each becomes, which model it gets, and what is refused, where."""

import re
from typing import Any, Final

import pytest

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.history import UNNAMED_NODE, Event, History, NoteEvent, OpEvent, Outcome
from fencepost.harness.interchange.formats.family import FAMILIES
from fencepost.harness.interchange.formats.imported import ImportedHistory, check_values
from fencepost.harness.interchange.formats.jepsen import write_edn
from fencepost.harness.judging.stand_alone import judge_foreign
from fencepost.harness.verdict import Validity
from tests.interchange.formats.histories import edn, read


def _events(text: str, **options: Any) -> list[OpEvent]:
    return [event for event in read(text, **options).history.events if type(event) is OpEvent]


def test_a_register() -> None:
    found = read(edn("0(w1 1(r 0) 1)1 0(w2 0? 2(r 2!"))
    assert (found.family.name, found.keyed) == ("register", False)
    assert [(op.f, op.value, op.result, op.type.value) for op in found.history.operations] == [
        ("write", 1, 1, "ok"),
        ("read", None, 1, "ok"),
        ("write", 2, 2, "info"),
        ("read", None, None, "fail"),
    ]
    assert {op.node for op in found.history.operations} == {UNNAMED_NODE}
    assert {op.key for op in found.history.operations} == {"the register"}


def test_compare_and_set() -> None:
    found = read(edn("0(w1 0) 1(c1,2 1) 0(c1,3 0!"))
    assert found.family.name == "cas-register"
    assert [op.value for op in found.history.operations] == [1, [1, 2], [1, 3]]


@pytest.mark.parametrize(
    "shape", ["[{k} {v}]", "#jepsen.independent/tuple [{k} {v}]", "#clojure.lang.MapEntry[{k} {v}]"]
)
def test_keyed_values(shape: str) -> None:
    def value(v: str) -> str:
        return shape.format(k=":x", v=v)

    text = "".join(
        f"{{:type {kind} :process {process} :f {f} :value {value(v)}}}\n"
        for kind, process, f, v in (
            (":invoke", 0, ":cas", "[1 2]"),
            (":fail", 0, ":cas", "[1 2]"),
            (":invoke", 1, ":read", "nil"),
            (":ok", 1, ":read", "7"),
        )
    )
    found = read(text)
    assert found.keyed
    assert [(e.key, e.value) for e in found.history.events if type(e) is OpEvent] == [
        (":x", [1, 2]),
        (":x", [1, 2]),
        (":x", None),
        (":x", 7),
    ]


def test_an_operation_record_and_one_vector_of_all() -> None:
    line = "#jepsen.history.Op{:index 0, :time 5, :type :invoke, :process 0, :f :read, :value nil}"
    for text in (line, f"[{line}]", f"({line})", f"; a head\n#_ {{}} [ {line} , ] ; a foot"):
        assert [(e.time_ns, e.f) for e in _events(text)] == [(5, "read")]


def test_the_nemesis_becomes_notes_and_keeps_the_numbers() -> None:
    text = (
        '{:type :info, :process :nemesis, :f :start-partition, :value {"n1" #{"n2"}}}\n'
        '{:type :invoke, :process 0, :f :read, :value nil, :error "odd", :node "n3", :extra #object[x 0x1 "y"]}\n'
        "{:type :info, :process :nemesis, :f :stop}\n"
        "{:type :info, :process 0, :f :read, :value :timed-out, :error [:timeout 5.0]}\n"
    )
    events = read(text).history.events
    assert [type(event) for event in events] == [NoteEvent, OpEvent, NoteEvent, OpEvent]
    assert [event.index for event in events] == [0, 1, 2, 3]
    note, invoke, _, info = events
    assert isinstance(note, NoteEvent) and note.text == ':info :start-partition {"n1" ["n2"]}'
    assert isinstance(invoke, OpEvent) and (invoke.error, invoke.node) == ("odd", "n3")
    assert isinstance(info, OpEvent) and (info.error, info.node, info.type) == ("[:timeout 5.0]", "n3", Outcome.INFO)


def test_without_times_the_order_is_the_time() -> None:
    assert [
        e.time_ns
        for e in _events("{:type :invoke :process 0 :f :write :value 1} {:type :ok :process 0 :f :write :value 1}")
    ] == [0, 1]


def test_a_set_and_the_reads_after_its_adds() -> None:
    text = edn("0(a1 0) 1(r 1)#{} 0(a2 0) 1(r 1)#{1,2} 2(r 2)[1]")
    found = read(text)
    assert found.family.name == "set"
    assert [op.result for op in found.history.operations if op.f == "members"] == [[1, 2], [1]]
    full = read(text, model="set-full")
    assert [op.result for op in full.history.operations if op.f == "members"] == [[], [1, 2], [1]]


_MODELS = [
    ("{:type :invoke :process 0 :f :read}", "register"),
    ("{:type :invoke :process 0 :f :enqueue :value 1}", "queue"),
    ("{:type :invoke :process 0 :f :transfer :value {:from 1 :to 2 :amount 3}}", "bank"),
    ("{:type :invoke :process 0 :f :send :value [[:send 1 2]]}", "log"),
    ("{:type :invoke :process 0 :f :increment :value 1}", "counter"),
    (edn("0(a1 0) 1(r 1)1"), "counter"),
    (
        "{:type :invoke :process 0 :f :txn :value [[:append :x 1] [:r :y nil]]}"
        "{:type :ok :process 0 :f :txn :value [[:append :x 1] [:r :y [2 3]]]}",
        "list-append",
    ),
    (
        "{:type :invoke :process 0 :f :txn :value [[:w :x 1] [:r :y nil]]}"
        "{:type :ok :process 0 :f :txn :value [[:w :x 1] [:r :y 2]]}",
        "rw-register",
    ),
    (
        "{:type :invoke :process 0 :f :poll :value [[:poll]]}"
        "{:type :ok :process 0 :f :poll :value [[:poll {0 [[1 2]]}]]}",
        "log",
    ),
]


@pytest.mark.parametrize(("text", "wanted"), _MODELS, ids=[f"{model}-{i}" for i, (_, model) in enumerate(_MODELS)])
def test_the_model_is_told_by_the_operations(text: str, wanted: str) -> None:
    assert read(text).family.name == wanted


def test_a_transaction_keeps_its_micro_operations() -> None:
    text = next(text for text, model in _MODELS if model == "list-append")
    assert _events(text)[1].value == [[":append", ":x", 1], [":r", ":y", [2, 3]]]


_OP = "{:type :invoke :process 0 :f :read :value nil}"
_BAD: list[tuple[str, int, int, str]] = [
    ("{:process 0 :f :read}", 1, 1, "without :type; expected :type, :process, :f and :value"),
    ("{:type :ok :f :read}", 1, 1, "without :process"),
    ("{:type :ok :process 0}", 1, 1, "without :f"),
    ("{:type :sleep :process 0 :f :read}", 1, 8, "unknown :type :sleep; expected :invoke, :ok, :fail or :info"),
    ("{:type :ok :process 1.5 :f :read}", 1, 21, ":process is 1.5; expected an integer from 0, or :nemesis"),
    ("{:type :ok :process -1 :f :read}", 1, 21, ":process is -1"),
    ("{:type :invoke :process 0 :f 7}", 1, 30, ":f is 7; expected a keyword, as :read"),
    ("{:type :invoke :process 0 :f :read :time 1.5}", 1, 42, ":time is 1.5; expected an integer from 0"),
    ("{:type :invoke :process 0 :f :read :time 99999999999999999999}", 1, 42, ":time is 99999999999999999999"),
    ("{:type :invoke :process 0 :f :read :index -1}", 1, 43, ":index is -1"),
    ("{:type :invoke :type :ok :process 0 :f :read}", 1, 16, "the key :type stands twice"),
    ("{:type :invoke 5 6 :process 0 :f :read}", 1, 16, "an operation's keys are keywords"),
    (f"{_OP}\n{_OP}", 2, 1, "process 0 invokes while its operation of line 1 is open"),
    (f"{_OP}\n{{:type :ok :process 1 :f :read :value 1}}", 2, 1, "process 1 completes with :ok what is not open"),
    (f"{_OP}\n{{:type :ok :process 0 :f :write :value 1}}", 2, 1, "completes another :f than it invoked in line 1"),
    (
        f"{_OP}\n{{:type :ok :process 0 :f :read :value 1}}\n\n{{:type :ok :process 0 :f :read :value 1}}",
        4,
        1,
        "process 0 completes with :ok what is not open; expected an :invoke, and one completion of it",
    ),
    (f"{_OP}\n{{:type :info :process 0 :f :read}}\n{_OP}", 3, 1, "process 0 acts again after it ended :info"),
    (edn("0(w1 0)").replace(", :time 1000", ""), 2, 1, "this operation lacks :time, the one of line 1 had one"),
    (edn("0(w1 0)").replace(":index 0, ", ""), 2, 1, "this operation has :index, the one of line 1 had none"),
    ("{:type :invoke :process 0 :f :write}", 1, 1, "an operation without :value"),
    (edn("0(w1 0) 1(w:a"), 3, 1, "the value :a is a keyword; expected an integer as in line 1"),
    (edn("0(c1,true 0! 0(r"), 1, 1, "the value true is a boolean; expected an integer"),
    ("{:type :invoke :process 0 :f :cas :value 5}{:type :invoke :process 1 :f :read}", 1, 1, "expected [old new]"),
    (edn("0(r[1,nil] 1(r"), 2, 1, "a read without a key among reads with one"),
    (edn("0(r[1,nil] 0)[1,7] 0(w5"), 3, 1, "a value without its key"),
    (edn("0(r[1,nil] 0)[1,7] 0(r[:a,nil] 5(w[1,5]"), 3, 1, "the key :a is a keyword; expected an integer as in line 4"),
]


@pytest.mark.parametrize(("text", "line", "column", "said"), _BAD, ids=[row[3][:50] for row in _BAD])
def test_what_is_refused_is_refused_at_its_place(text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(MalformedHistory) as caught:
        read(text)
    assert f"a.edn: line {line}, column {column}: " in caught.value.message
    assert said in caught.value.message


def test_operations_that_no_model_has_are_refused() -> None:
    text = "{:type :invoke :process 0 :f :read} {:type :invoke :process 1 :f :frobnicate}"
    with pytest.raises(UsageError, match="frobnicate, read: no model understands all of these"):
        read(text)
    with pytest.raises(UsageError, match="the model register has no operation frobnicate; expected read, write"):
        read(text, model="register")
    with pytest.raises(UsageError, match="unknown model 'queu'"):
        read(text, model="queu")


def test_who_reads_nothing_must_say_whether_it_is_keyed() -> None:
    text = edn("0(c1,2 0) 1(c2,3 1)")
    with pytest.raises(UsageError, match=r"no read shows whether values such as \[1 2\] are \[key value\]"):
        read(text)
    assert read(text, keyed=False).history.operations[0].value == [1, 2]
    with pytest.raises(MalformedHistory, match=r"expected \[old new\]"):
        read(text, keyed=True)


def test_what_is_written_is_read_again() -> None:
    found = read(edn("0(w1 1(r 0) 1)1 0(w2 0? 2(r 2! 3(r 3)nil"))
    again = read("".join(write_edn(found.history.events)))
    assert list(again.history.events) == list(found.history.events)


def test_a_history_of_our_own_is_written_for_others() -> None:
    events: list[Event] = [
        OpEvent(index=0, time_ns=5, type=Outcome.INVOKE, process=3, f="write", node="n1", key="r2", value=7),
        NoteEvent(index=1, time_ns=6, topic="t", text="x"),
        OpEvent(index=2, time_ns=9, type=Outcome.OK, process=3, f="write", node="n1", key="r2", value=7, position=42),
    ]
    assert "".join(write_edn(History(events).events)) == (
        '{:index 0, :time 5, :type :invoke, :process 3, :f :write, :value ["r2" 7], :node "n1", :history-index 0}\n'
        '{:index 1, :time 9, :type :ok, :process 3, :f :write, :value ["r2" 7], :node "n1", :history-index 2}\n'
    )


#: Writes of x and y by one process, then a read of x by another: correct, and of one register it would be stale.
NAMED: Final = [
    '{:type :invoke, :process 0, :f :write, :key "x", :value 1}',
    '{:type :ok, :process 0, :f :write, :key "x", :value 1}',
    '{:type :invoke, :process 0, :f :write, :key "y", :value 2}',
    '{:type :ok, :process 0, :f :write, :key "y", :value 2}',
    '{:type :invoke, :process 1, :f :read, :key "x", :value nil}',
    "{:type :ok, :process 1, :f :read, :value 1}",
]


def test_a_key_beside_the_value_is_used_and_a_correct_history_not_accused() -> None:
    found = read("\n".join(NAMED))
    assert [op.key for op in found.history.operations] == ["x", "y", "x"]
    assert [op.value for op in found.history.operations] == [1, 2, None]
    assert judge_foreign(found, "a.edn").validity is Validity.VALID


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (0, NAMED[0].replace(':key "x", ', ""), "line 1, column 1: an operation without :key among some"),
        (2, NAMED[2].replace('"y"', ":y"), "line 3, column 1: the key :y is a keyword; expected a string"),
    ],
)
def test_a_key_beside_the_value_that_nobody_can_mean_is_refused(line: int, text: str, said: str) -> None:
    with pytest.raises(MalformedHistory, match=re.escape(said)):
        read("\n".join([*NAMED[:line], text, *NAMED[line + 1 :]]))


def test_a_key_beside_values_that_have_one_is_refused() -> None:
    with pytest.raises(MalformedHistory, match="a :key, although --keyed says that values are"):
        read("\n".join(NAMED), keyed=True)


def test_the_key_of_a_transaction_is_refused() -> None:
    """Its micro-operations name theirs, so that nothing would look at it."""
    lines = (f"{{:type :{kind}, :process 0, :f :txn, :key 1, :value [[:append 1 1]]}}" for kind in ("invoke", "ok"))
    with pytest.raises(MalformedHistory, match="a :key on an operation that has no key, or several keys"):
        read("\n".join(lines))
    events = [
        OpEvent(index=i, time_ns=i, type=kind, process=0, f="txn", node="n", key="x", value=[["append", 1, 1]])
        for i, kind in enumerate((Outcome.INVOKE, Outcome.OK))
    ]
    history = ImportedHistory(events, FAMILIES["list-append"], source="a.jsonl")
    with pytest.raises(MalformedHistory, match="a txn of the key 'x'; expected it in the value"):
        check_values(history, lambda i: f"event {i}")


#: Operations whose answers leave open what they are of, and models that the refusal names.
_OPEN: Final = [("0(r 0)0", "register, counter, bank, set"), ('0(r 0)"x" 0(r 0)0', "register, counter, bank, set")]


@pytest.mark.parametrize(("words", "models"), _OPEN)
def test_a_model_that_is_not_certain_is_asked_for(words: str, models: str) -> None:
    with pytest.raises(UsageError, match=f"do not show which of {models} this is") as caught:
        read(edn(words))
    assert caught.value.hint == f"name the model: --model {models.partition(',')[0]}"
    assert read(edn("0(r 0)[5] 1(r 1)[5]"), model="bank").family.name == "bank"


@pytest.mark.parametrize(
    ("second", "wanted"), [("[[:w :x 1]]", "rw-register"), ("[[:r :x nil] [:append :x 1]]", "list-append")]
)
def test_transactions_that_only_read_do_not_tell_the_model(second: str, wanted: str) -> None:
    def line(process: int, kind: str, value: str) -> str:
        return f"{{:type :{kind} :process {process} :f :txn :value {value}}}"

    reads = [line(0, kind, "[[:r :x nil]]") for kind in ("invoke", "ok")]
    with pytest.raises(UsageError, match="do not show which of list-append, rw-register this is"):
        read("\n".join(reads))
    assert read("\n".join([*reads, *(line(1, kind, second) for kind in ("invoke", "ok"))])).family.name == wanted
