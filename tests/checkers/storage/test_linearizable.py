"""The native search agrees with its plain-Python twin, replays, and does not care about names, times or threads."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.checkers import _core
from fencepost.checkers.storage import registers as linearizable
from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ, WRITE, ProofRow, explains, linearize
from fencepost.harness.history import Event, History, OpEvent, Outcome
from fencepost.harness.verdict import Facts, Stop, Thresholds
from tests.histories.simulate import Shape, bend, in_sequence, valid_history
from tests.seeds import WHOLE_HISTORIES

#: Histories per example that is drawn by seed: most of the cost is Hypothesis's own.
BATCH = 150


def judge(histories: Sequence[list[ProofRow]], **options: Any) -> list[_core.KeyResult]:
    """The native search over histories, each a key of its own."""
    rows = [(key, row) for key, history in enumerate(histories) for row in history]

    def column(values: list[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(values, dtype=np.int64)

    given_options: dict[str, Any] = {"steps": 10**9, "memory_bytes": 10**9, "wall_s": 60.0, "orders": True}
    return _core.check_registers(
        column([key for key, _ in rows]),
        column([row.f for _, row in rows]),
        column([row.a for _, row in rows]),
        column([row.b for _, row in rows]),
        column([row.invoked for _, row in rows]),
        column([-1 if row.returned == NEVER else row.returned for _, row in rows]),
        **{**given_options, **options},
    )


def assert_agrees(histories: list[list[ProofRow]]) -> None:
    """Both searches say the same of every history, and an order given is one."""
    histories = [history for history in histories if history]
    first = 0
    for history, result in zip(histories, judge(histories), strict=True):
        expected = "invalid" if linearize(history) is None else "valid"
        assert result.verdict == expected, history
        order = [row - first for row in result.order]
        if expected == "valid":
            assert explains(history, order), (history, order)
        else:
            assert_longest_prefix(history, order, result, first)
        first += len(history)


def assert_longest_prefix(history: list[ProofRow], order: list[int], result: _core.KeyResult, first: int) -> None:
    """`order` explains what returned before the failed operation, which then cannot be added."""
    assert result.failed is not None
    failed = history[result.failed - first]
    before = [row for row in history if row.invoked < failed.returned]
    known = [
        row if row.returned < failed.returned else ProofRow(row.f, row.a, row.b, row.invoked, NEVER) for row in before
    ]
    place = {id(row): i for i, row in enumerate(before)}
    assert explains(known, [place[id(history[row])] for row in order]), (history, order)
    assert linearize([row if row.returned <= failed.returned else known[i] for i, row in enumerate(before)]) is None
    assert (failed.f == READ and failed.a not in result.states) or failed.f == CAS


shapes = st.builds(
    Shape,
    operations=st.integers(2, 16),
    clients=st.integers(1, 7),
    values=st.sampled_from([0, 1, 2, 3]),
    info=st.sampled_from([0.0, 0.1, 0.3, 0.6]),
)


@given(st.integers(0, 2**32), shapes)
def test_native_equals_reference_on_bent_histories(seed: int, shape: Shape) -> None:
    rng = random.Random(seed)
    histories = []
    for _ in range(BATCH):
        rows = valid_history(rng, shape)
        for _ in range(rng.randrange(4)):
            rows = bend(rng, rows, shape.values)
        histories.append(rows)
    assert_agrees(histories)


@st.composite
def drawn_histories(draw: st.DrawFn) -> list[ProofRow]:
    """Any small history at all: nothing is likely to be valid, and failures shrink."""
    rows: list[ProofRow] = []
    for _ in range(draw(st.integers(1, 7))):
        f = draw(st.sampled_from([READ, WRITE, CAS]))
        invoked = draw(st.integers(0, 9)) + len(rows) / 100
        length = draw(st.sampled_from([0.3, 1.3, 2.3, 4.3, 8.3] + ([NEVER] if f != READ else [])))
        b = draw(st.integers(0, 2)) if f == CAS else 0
        rows.append(ProofRow(f, draw(st.integers(0, 2)), b, invoked, invoked + length))
    return in_sequence(rows)


@WHOLE_HISTORIES
@given(st.lists(drawn_histories(), min_size=20, max_size=20))
def test_native_equals_reference_on_drawn_histories(histories: list[list[ProofRow]]) -> None:
    assert_agrees(histories)


@pytest.mark.parametrize("clients", [8, 12])
@pytest.mark.parametrize("values", [0, 2])
def test_native_equals_reference_at_high_concurrency(clients: int, values: int) -> None:
    rng = random.Random(clients * 10 + values)
    shape = Shape(operations=30, clients=clients, values=values, info=0.1)
    assert_agrees([bend(rng, valid_history(rng, shape), values) for _ in range(60)])


@pytest.mark.parametrize(
    "shape",
    [
        Shape(operations=10_000, clients=10, values=0, info=0.01),
        Shape(operations=10_000, clients=20, values=0, info=0.05),
        Shape(operations=10_000, clients=10, values=5),
        Shape(operations=10_000, clients=5, values=3, info=0.001),
        Shape(operations=2_000, clients=16, values=5),
    ],
    ids=lambda shape: f"{shape.clients}-clients-{shape.values}-values-{shape.info}-info",
)
def test_long_histories_of_a_correct_register_pass(shape: Shape) -> None:
    history = valid_history(random.Random(11), shape)
    (result,) = judge([history])
    assert (result.verdict, result.reason) == ("valid", "")
    assert explains(history, result.order)


@pytest.mark.parametrize("at", [0.1, 0.9])
def test_one_stale_read_in_a_long_history_is_named(at: float) -> None:
    history = valid_history(random.Random(5), Shape(operations=10_000, clients=10, values=0, info=0.01))
    reads = [i for i, row in enumerate(history) if row.f == READ]
    bad = reads[int(len(reads) * at)]
    row = history[bad]
    history[bad] = ProofRow(READ, history[reads[0]].a, 0, row.invoked, row.returned)
    (result,) = judge([history])
    assert (result.verdict, result.failed) == ("invalid", bad)
    assert history[reads[0]].a not in result.states


def test_more_open_operations_than_a_word_has_bits() -> None:
    for writers in (65, 130, 600):
        writes = [ProofRow(WRITE, i + 1, 0, i, NEVER) for i in range(writers)]
        reads = [ProofRow(READ, i + 1, 0, writers + 2 * i, writers + 2 * i + 1) for i in range(writers)]
        again = ProofRow(READ, 1, 0, 10 * writers, 10 * writers + 1)
        assert [result.verdict for result in judge([writes + reads, [*writes, *reads, again]])] == ["valid", "invalid"]
        slow = [ProofRow(WRITE, i + 1, 0, i, 20 * writers + i) for i in range(writers)]
        assert [result.verdict for result in judge([slow + reads, [*slow, *reads, again]])] == ["valid", "invalid"]


def test_threads_and_companions_change_nothing() -> None:
    rng = random.Random(3)
    shape = Shape(operations=150, clients=8, values=4, info=0.04)
    histories = [bend(rng, valid_history(rng, shape), 4) for _ in range(40)]

    def answers(threads: int, steps: int) -> list[tuple[str, int, list[int], int | None]]:
        results = judge(histories, threads=threads, steps=steps)
        return [(result.verdict, result.steps, result.order, result.failed) for result in results]

    for steps in (10**9, 60_000):
        assert answers(1, steps) == answers(2, steps) == answers(7, steps)
    assert "unknown" in {verdict for verdict, *_ in answers(2, 60_000)}


@pytest.mark.parametrize(
    ("budget", "stop"),
    [({"steps": 500}, Stop.STEPS), ({"memory_bytes": 10_000}, Stop.MEMORY), ({"wall_s": 0.0}, Stop.DEADLINE)],
)
def test_a_spent_budget_is_unknown_with_its_reason(budget: dict[str, Any], stop: Stop) -> None:
    history = valid_history(random.Random(1), Shape(operations=3_000, clients=16, values=3, info=0.2))
    (result,) = judge([history], **budget)
    assert (result.verdict, result.stop, result.reason, result.order) == ("unknown", stop, stop.sentence, [])


def test_a_decided_key_has_no_stop() -> None:
    assert {
        result.stop for result in judge([valid_history(random.Random(1), Shape(operations=9, clients=2, values=2))])
    } == {None}


def test_wrong_columns_are_refused() -> None:
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    budget: dict[str, Any] = {"steps": 10, "memory_bytes": 10**6, "wall_s": 1.0}
    with pytest.raises(ValueError, match="the columns differ in length"):
        _core.check_registers(one, two, one, one, one, one, **budget)
    with pytest.raises(ValueError, match="row 0: f is 7; expected 0 read, 1 write or 2 cas"):
        _core.check_registers(one, one + 7, one, one, one, one, **budget)
    with pytest.raises(ValueError, match="row 0: a is -1"):
        _core.check_registers(one, one, one - 1, one, one, one, **budget)
    with pytest.raises(ValueError, match="row 0: returned at 1, before it was invoked at 2"):
        _core.check_registers(one, one, one, one, one + 2, one + 1, **budget)
    with pytest.raises(ValueError, match=f"row 0: returned at {2**63 - 1}; expected less, or -1"):
        _core.check_registers(one, one, one, one, one, one + (2**63 - 1), **budget)
    with pytest.raises(TypeError):
        _core.check_registers(one.astype(np.int32), one, one, one, one, one, **budget)


# Metamorphic: the whole checker, from events to verdict.

FACTS = Facts(
    system="imaginary", workload="register", nodes=("n1",), guarantees=(), thresholds=Thresholds(exposure_min=0)
)


def as_events(rng: random.Random, histories: list[list[ProofRow]]) -> list[OpEvent]:
    """Rows of several keys as one run's events, with a few failed writes between them."""
    told: list[tuple[float, dict[str, Any]]] = []
    process = 0
    for key, rows in enumerate(histories):
        for row in rows:
            process += 1
            same = {"process": process, "f": ("read", "write", "cas")[row.f], "node": "n1", "key": f"r{key}"}
            # 0 is what a register holds at first: None in a history.
            value: Any = {READ: None, WRITE: row.a or None, CAS: [row.a or None, row.b or None]}[row.f]
            result = (row.a or None) if row.f == READ else value
            told.append((row.invoked, {**same, "type": Outcome.INVOKE, "value": value}))
            if row.returned != NEVER:
                told.append((row.returned, {**same, "type": Outcome.OK, "value": result}))
            if rng.random() < 0.2:
                process += 1
                failed = {"process": process, "f": "write", "node": "n1", "key": f"r{key}", "value": 1}
                told.append((row.invoked, {**failed, "type": Outcome.INVOKE}))
                told.append((row.invoked + 0.4, {**failed, "type": Outcome.FAIL}))
    ordered = sorted(told, key=lambda event: event[0])
    return [OpEvent(index=i, time_ns=round(1000 * at), **fields) for i, (at, fields) in enumerate(ordered)]


def verdict_of(events: Sequence[Event]) -> tuple[str, dict[str, int], str, int | None]:
    (verdict,) = linearizable.check(History(events), FACTS)
    return verdict.validity.value, verdict.counts, verdict.reason, verdict.tested


@given(st.integers(0, 2**32))
def test_names_times_and_failed_operations_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    shape = Shape(operations=12, clients=4, values=rng.choice([0, 3]), info=0.1)
    events = as_events(rng, [bend(rng, valid_history(rng, shape), shape.values) for _ in range(4)])
    expected = verdict_of(events)
    replace = msgspec.structs.replace

    def renamed(value: Any) -> Any:
        if isinstance(value, list):
            return [renamed(part) for part in value]
        return None if value is None else f"value {value}"

    shift = rng.randrange(10**12)
    assert verdict_of([replace(e, process=e.process * 31 + 7, node=f"m{e.node}") for e in events]) == expected
    assert verdict_of([replace(e, key=f"other {e.key}") for e in events]) == expected
    assert verdict_of([replace(e, time_ns=e.time_ns + shift) for e in events]) == expected
    assert verdict_of([replace(e, value=renamed(e.value)) for e in events]) == expected
    failed = {e.process for e in events if e.type is Outcome.FAIL}
    kept = [e for e in events if e.process not in failed]
    dropped = verdict_of([replace(e, index=i) for i, e in enumerate(kept)])
    # What only a failed write made is still a violation; dropping it changes only how it is told.
    assert (dropped[0], sum(dropped[1].values())) == (expected[0], sum(expected[1].values()))
