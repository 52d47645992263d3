"""One reader for both forms: what is well-formed comes back equal, what is not is refused with its place and rule."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import HarnessError, MalformedHistory, UsageError
from fencepost.harness.history import (
    AttemptEvent,
    BeliefEvent,
    Claim,
    Clock,
    ClockEvent,
    Effects,
    EpochEvent,
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    NodeChange,
    NodeEvent,
    NoteEvent,
    OpEvent,
    Outcome,
    PhaseEvent,
    PhaseName,
    SampleEvent,
)
from fencepost.harness.history.effects import effects_of_version_1
from fencepost.harness.results.columns import COLUMNS, LATER_COLUMNS, VERSION_KEY, read_parquet, schema
from fencepost.harness.results.reader import read_history, seal, to_parquet
from fencepost.harness.results.run_folder import HISTORY, HISTORY_LINES, RESERVE


def fault(index: int, action: FaultAction, stage: FaultStage, outcome: FaultOutcome, **fields: Any) -> FaultEvent:
    return FaultEvent(
        index=index,
        time_ns=index,
        fault_id=3,
        fault="partition",
        action=action,
        stage=stage,
        outcome=outcome,
        target="leader",
        **fields,
    )


EVERY_KIND: Final[list[Event]] = [
    PhaseEvent(index=0, time_ns=0, phase=PhaseName.MAIN),
    OpEvent(index=1, time_ns=1, type=Outcome.INVOKE, process=0, f="cas", node="n1", key="r1", value=[None, 2]),
    NodeEvent(index=2, time_ns=2, node="n1", change=NodeChange.EXITED, incarnation=0, exit_status=-9, expected=False),
    fault(3, FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING),
    fault(
        4,
        FaultAction.INJECT,
        FaultStage.END,
        FaultOutcome.INSTALLED,
        nodes=("n1", "n2"),
        severed=("n1>n2",),
        leader="n1",
        epoch=4,
        proof="probes",
        why="",
        details={"offset_ns": 5, "clock": "wall", "rate": 1.5},
        effects=Effects(cuts=True),
    ),
    OpEvent(
        index=5,
        time_ns=5,
        type=Outcome.OK,
        process=0,
        f="cas",
        node="n1",
        key="r1",
        value={"a": [1, "é", None, 1.5]},
        error="",
        position=2**62,
        value_position=-1,
        epoch=7,
        session=-(2**63),
    ),
    BeliefEvent(
        index=6,
        time_ns=6,
        subject="leader",
        node="n2",
        incarnation=1,
        claims=Claim.SILENT,
        asked_ns=1,
        answered_ns=6,
        source="srvr",
        epoch=5,
        epoch_exact=False,
        leader="n2",
        detail="…",
    ),
    EpochEvent(index=7, time_ns=7, node="n2", incarnation=1, epoch=5, source="log"),
    SampleEvent(index=8, time_ns=8, loop_lag_ns_max=9, cpu_stall_ns=0, node_cpu_ns={"n1": 5}),
    SampleEvent(index=9, time_ns=9, loop_lag_ns_max=9),
    NoteEvent(index=10, time_ns=10, topic="early-stop", text="said\nin two lines"),
    fault(11, FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING),
    fault(12, FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED),
    ClockEvent(
        index=13,
        time_ns=13,
        node="n2",
        incarnation=1,
        clock=Clock.MONOTONIC,
        asked_ns=12,
        since_ns=12,
        offset_ns=-5,
        rate=1.25,
        period_ns=7,
        delta_ns=-8,
        length_ns=70,
        certain=False,
        fault_id=3,
        proof="read back",
    ),
    AttemptEvent(
        index=14,
        time_ns=14,
        node="n2",
        f="create",
        error="session-expired",
        source="n2's log",
        epoch=5,
        key="t7",
        detail="…",
    ),
    AttemptEvent(index=15, time_ns=15, node="n2", f="TopicChange", error="controller-epoch", source="n1's log"),
]


def write_lines(path: Path, events: list[Event]) -> Path:
    path.write_bytes(msgspec.json.Encoder().encode_lines(events))
    return path


def op(index: int, type_: Outcome, process: int = 0, **fields: Any) -> OpEvent:
    return OpEvent(index=index, time_ns=index, type=type_, process=process, f="w", node="n1", **fields)


def test_every_kind_comes_back_equal_from_both_forms(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / HISTORY_LINES, EVERY_KIND)
    assert list(read_history(lines).events) == EVERY_KIND
    assert list(read_history(tmp_path).events) == EVERY_KIND
    (tmp_path / RESERVE).touch()
    assert seal(tmp_path) == tmp_path / HISTORY
    assert sorted(p.name for p in tmp_path.iterdir()) == [HISTORY]
    assert list(read_history(tmp_path).events) == EVERY_KIND
    assert seal(tmp_path) == tmp_path / HISTORY


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
LONG: Final = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(st.text(max_size=4), st.none() | st.text(max_size=4), JSON, LONG, LONG, LONG), max_size=20))
def test_random_operations_come_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str | None, Any, int | None, int | None, int | None]],
) -> None:
    events: list[Event] = []
    for i, (f, key, value, position, epoch, session) in enumerate(rows):
        same: dict[str, Any] = {"process": i, "f": f, "node": "n1", "key": key}
        events.append(OpEvent(index=2 * i, time_ns=i, type=Outcome.INVOKE, value=value, **same))
        reply: dict[str, Any] = {"position": position, "epoch": epoch, "session": session, "error": f}
        events.append(OpEvent(index=2 * i + 1, time_ns=i, type=Outcome.FAIL, value=value, **same, **reply))
    folder = tmp_path_factory.mktemp("history")
    assert list(read_history(write_lines(folder / HISTORY_LINES, events)).events) == events
    seal(folder)
    assert list(read_history(folder).events) == events


def test_half_a_line_at_the_end_is_dropped_and_said_also_after_sealing(tmp_path: Path) -> None:
    path = write_lines(tmp_path / HISTORY_LINES, EVERY_KIND)
    whole = path.read_bytes()
    for cut in (1, 2, 30):
        path.write_bytes(whole[:-cut])
        history = read_history(path)
        # Without its newline alone the last line is still whole.
        whole_count = len(EVERY_KIND) if cut == 1 else len(EVERY_KIND) - 1
        assert (len(history.events), history.torn) == (whole_count, cut != 1)
    seal(tmp_path)
    assert read_history(tmp_path).torn
    assert len(read_history(tmp_path).events) == len(EVERY_KIND) - 1


def test_an_empty_history_is_one(tmp_path: Path) -> None:
    (tmp_path / HISTORY_LINES).touch()
    assert list(read_history(tmp_path).events) == []
    seal(tmp_path)
    assert list(read_history(tmp_path).events) == []


Lines = list[bytes]


def _swap(lines: Lines) -> Lines:
    return [*lines[:4], lines[5], lines[4], *lines[6:]]


def _with(at: int, line: bytes) -> Callable[[Lines], Lines]:
    return lambda lines: [*lines[:at], line, *lines[at + 1 :]]


@pytest.mark.parametrize(
    ("spoil", "line", "rule"),
    [
        (lambda lines: lines[:4] + lines[5:], 5, "missing or out of order"),
        (_swap, 5, "missing or out of order"),
        (_with(3, b'{"kind":"fault","index":3'), 4, "truncated"),
        (_with(3, b""), 4, "truncated"),
        (_with(3, b"\xff\xfe"), 4, "malformed"),
        (_with(1, b'{"kind":"op","index":"1","time_ns":1}'), 2, r"Expected `int`, got `str`.*index"),
        (
            _with(1, b'{"kind":"op","index":1,"time_ns":1,"type":"OK","process":0,"f":"w","node":"n1"}'),
            2,
            "Invalid enum",
        ),
        (
            _with(1, b'{"kind":"op","index":1,"time_ns":1,"type":"ok","f":"w","node":"n1"}'),
            2,
            "missing required.*process",
        ),
        (_with(1, b'{"kind":"opp","index":1,"time_ns":1}'), 2, "Invalid value 'opp'"),
        (_with(1, b"[]"), 2, "Expected `object`"),
        (
            _with(7, b'{"kind":"epoch","index":7,"time_ns":3,"node":"n2","incarnation":1,"epoch":5,"source":"log"}'),
            8,
            "earlier",
        ),
        (_with(0, b'{"kind":"phase","index":0,"time_ns":-1,"phase":"main"}'), 1, "earlier"),
    ],
)
def test_malformed_lines_are_named_and_left_alone(
    tmp_path: Path, spoil: Callable[[Lines], Lines], line: int, rule: str
) -> None:
    path = write_lines(tmp_path / HISTORY_LINES, EVERY_KIND)
    spoiled = b"\n".join(spoil(path.read_bytes().splitlines())) + b"\n"
    path.write_bytes(spoiled)
    for read in (lambda: read_history(tmp_path), lambda: seal(tmp_path)):
        with pytest.raises(MalformedHistory, match=rf"history\.jsonl: line {line}: (?s:.*){rule}"):
            read()
    assert [p.name for p in tmp_path.iterdir()] == [HISTORY_LINES]
    assert path.read_bytes() == spoiled


BEGIN, END, INJECT, HEAL = FaultStage.BEGIN, FaultStage.END, FaultAction.INJECT, FaultAction.HEAL
PENDING, INSTALLED, HEALED = FaultOutcome.PENDING, FaultOutcome.INSTALLED, FaultOutcome.HEALED
INVOKE, OK, INFO = Outcome.INVOKE, Outcome.OK, Outcome.INFO


@pytest.mark.parametrize(
    ("events", "at", "rule"),
    [
        ([op(0, INVOKE), op(1, INVOKE)], 1, "still open"),
        ([op(0, OK)], 0, "never invoked"),
        ([op(0, INVOKE), op(1, OK), op(2, OK)], 2, "never invoked"),
        ([op(0, INVOKE), op(1, OK, process=1)], 1, "never invoked"),
        ([op(0, INVOKE), op(1, OK, key="r2")], 1, "the completion says"),
        ([op(0, INVOKE), op(1, INFO), op(2, INVOKE)], 2, "acts again"),
        ([fault(0, INJECT, END, INSTALLED)], 0, "without having begun"),
        ([fault(0, INJECT, BEGIN, PENDING), fault(1, INJECT, BEGIN, PENDING)], 1, "second time"),
        ([fault(0, HEAL, BEGIN, PENDING)], 0, "never injected"),
        ([fault(0, INJECT, BEGIN, INSTALLED)], 0, "a `begin` must be `pending`"),
        ([fault(0, INJECT, BEGIN, PENDING), fault(1, INJECT, END, PENDING)], 1, "ends as `pending`"),
    ],
)
def test_rules_hold_in_both_forms(tmp_path: Path, events: list[Event], at: int, rule: str) -> None:
    with pytest.raises(MalformedHistory, match=f"history: event {at}: .*{rule}"):
        History(events)
    with pytest.raises(MalformedHistory, match=rf"jsonl: line {at + 1}: .*{rule}"):
        read_history(write_lines(tmp_path / HISTORY_LINES, events))
    to_parquet(events, tmp_path / HISTORY)
    with pytest.raises(MalformedHistory, match=rf"parquet: event {at}: .*{rule}"):
        read_history(tmp_path)


def test_a_heal_may_be_tried_again() -> None:
    stages = [(INJECT, BEGIN, PENDING), (INJECT, END, INSTALLED), (HEAL, BEGIN, PENDING), (HEAL, END, HEALED)]
    events = [fault(i, *stage) for i, stage in enumerate([*stages, *stages[2:]])]
    assert len(History(events).faults) == 1


def _spoil_parquet(path: Path, change: Callable[[dict[str, list[Any]]], object], target: Any = None) -> None:
    columns = pq.read_table(path).to_pydict()
    change(columns)
    path.unlink()
    target = target or schema()
    pq.write_table(pa.table({name: columns[name] for name in target.names}, schema=target), path)


@pytest.mark.parametrize(
    ("column", "row", "cell", "rule"),
    [
        ("kind", 2, "nodd", "event 2: unknown kind 'nodd'"),
        ("kind", 2, None, "event 2: unknown kind None"),
        ("type", 5, "okay", "event 5: `type` 'okay' is none of"),
        ("process", 5, None, "event 5: `process` is null"),
        ("value", 5, "{", "event 5: `value` is not JSON"),
        ("phase", 0, "mane", "event 0: Invalid enum"),
        ("subject", 6, None, "event 6: .*missing required.*subject"),
        ("index", 3, 4, "event 3: index 4 where 3"),
    ],
)
def test_malformed_parquet_is_named(tmp_path: Path, column: str, row: int, cell: Any, rule: str) -> None:
    path = tmp_path / HISTORY
    to_parquet(EVERY_KIND, path)
    _spoil_parquet(path, lambda columns: columns[column].__setitem__(row, cell))
    with pytest.raises(MalformedHistory, match=rule):
        read_history(path)


def test_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / HISTORY
    to_parquet(EVERY_KIND, path)
    fields = [pa.field(name, kind) for name, kind in COLUMNS.items()]
    for target, rule in [
        (pa.schema(fields, {VERSION_KEY: b"99"}), "schema version 99"),
        (pa.schema(fields), "not a history"),
        (pa.schema([f for f in fields if f.name != "text"], {VERSION_KEY: b"1"}), "'text' is missing"),
        (pa.schema([pa.field("kind", pa.large_string()), *fields[1:]], {VERSION_KEY: b"1"}), "'kind' has type"),
    ]:
        _spoil_parquet(path, lambda columns: columns.setdefault("text", [None] * len(EVERY_KIND)), target)
        with pytest.raises(MalformedHistory, match=rule):
            read_history(path)


@pytest.mark.parametrize("keep", [0, 10, 2000, -1])
def test_a_truncated_parquet_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / HISTORY
    to_parquet(EVERY_KIND, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(MalformedHistory, match="not a whole Parquet file"):
        read_history(path)


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / HISTORY_LINES, EVERY_KIND)
    other = tmp_path / HISTORY
    to_parquet(EVERY_KIND[:-1], other)
    before = other.read_bytes()
    with pytest.raises(HarnessError, match="the lines are kept"):
        seal(tmp_path)
    with pytest.raises(UsageError, match="exists already"):
        to_parquet(EVERY_KIND, other)
    assert other.read_bytes() == before
    assert lines.exists()


def test_sealing_goes_on_where_it_was_broken_off(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / HISTORY_LINES, EVERY_KIND)
    to_parquet(EVERY_KIND, tmp_path / HISTORY)
    seal(tmp_path)
    assert not lines.exists()


def test_a_number_that_no_column_holds_is_refused_and_the_lines_are_kept(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / HISTORY_LINES, [op(0, INVOKE), op(1, OK, position=2**63)])
    with pytest.raises(MalformedHistory, match="position"):
        seal(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [lines.name]


def test_what_is_no_history_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither history"):
        read_history(tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        read_history(tmp_path / "x.jsonl")
    (tmp_path / "x.csv").touch()
    with pytest.raises(UsageError, match="not a history"):
        read_history(tmp_path / "x.csv")


def test_equal_words_are_one_object(tmp_path: Path) -> None:
    events: list[Event] = [e for i in range(3) for e in (op(2 * i, INVOKE, key="r1"), op(2 * i + 1, OK, key="r1"))]
    write_lines(tmp_path / HISTORY_LINES, events)
    for _ in range(2):
        read = [e for e in read_history(tmp_path).events if isinstance(e, OpEvent)]
        assert len({(id(e.f), id(e.node), id(e.key)) for e in read}) == 1
        seal(tmp_path)


def test_a_file_of_version_1_is_read_without_the_columns_that_were_added_since(tmp_path: Path) -> None:
    path = tmp_path / HISTORY
    # Nothing was known of clocks then.
    events = [e for e in EVERY_KIND if not isinstance(e, ClockEvent)]
    to_parquet(events, path)
    table = pq.read_table(path).drop_columns(sorted(LATER_COLUMNS))
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"1"}), path)
    bare = [msgspec.structs.replace(e, details={}, effects=None) if isinstance(e, FaultEvent) else e for e in events]
    read = [event for batch in read_parquet(path) for event in batch]
    assert read == bare
    faults = [e for e in read if isinstance(e, FaultEvent)]
    told = History([msgspec.structs.replace(e, index=index) for index, e in enumerate(faults)])
    assert [fault.effects for fault in told.faults] == [effects_of_version_1("partition")]
    pq.write_table(table.replace_schema_metadata({VERSION_KEY: b"2"}), path)
    with pytest.raises(MalformedHistory, match="is missing"):
        list(read_parquet(path))


def test_the_documentation_names_every_column_with_its_type() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "history-format.md").read_text()
    names = {"string": "string", "int64": "int64", "bool": "boolean", "list<element: string>": "list of strings"}
    names |= {"list<item: string>": "list of strings", "double": "double"}
    names |= {str(COLUMNS["effects"]): "struct"}
    for name, kind in COLUMNS.items():
        assert f"| `{name}` | {names[str(kind)]} |" in text, name
    assert [f"- `{field.name}`:" for field in COLUMNS["effects"] if f"- `{field.name}`:" not in text] == []


def test_numbers_in_lines_are_integers(tmp_path: Path) -> None:
    """A line written by hand with a float where an integer belongs is refused, not rounded."""
    line = {"kind": "phase", "index": 0, "time_ns": 1.5, "phase": "main"}
    (tmp_path / HISTORY_LINES).write_text(json.dumps(line) + "\n")
    with pytest.raises(MalformedHistory, match="line 1"):
        read_history(tmp_path)


def test_a_folder_of_a_run_that_never_began_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither history.parquet nor history.jsonl is here") as raised:
        read_history(tmp_path)
    assert raised.value.hint == (
        "a run that ended before its cluster had started recorded nothing: fencepost run FOLDER/plan.toml"
    )
