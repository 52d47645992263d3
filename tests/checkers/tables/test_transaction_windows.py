"""What may close a cycle is kept, what is dropped closes none; parts of a history come to what the whole does."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.checkers import _core
from fencepost.checkers.tables.transactions import Rows
from fencepost.checkers.tables.transactions_by_key import (
    ANOMALY,
    BROKEN,
    CHANCES,
    CIRCLE,
    EDGE,
    NO_TRANSACTION,
    OBSERVED,
    TWICE,
    explained,
    pieces,
    whole_keys,
)
from fencepost.checkers.tables.transactions_core import Judged, Transactions, collected, judged
from fencepost.checkers.tables.transactions_windows import (
    FOREVER,
    UNRAISED,
    Edges,
    Points,
    not_forward,
    raised,
    windows,
    within,
)
from fencepost.checkers.transactions.columns import INFO, NIL, OK
from fencepost.checkers.transactions.native import Assumed
from fencepost.checkers.transactions.rules import Chances, chances_of
from tests.checkers.tables.transaction_tables import changed, longer, micro_operations, op, small_ones, table, wrong
from tests.checkers.transactions.transaction_histories import Txn, told

#: Of lists, which need no assumptions.
ANY: dict[str, Any] = {"lists": True, "assumed": Assumed()}


def column(values: Any) -> Any:
    return np.array(values, dtype=np.int64)


def random_graph(rng: random.Random) -> tuple[list[int], list[int], Edges]:
    """Invocations and completions, doubled, and edges of which most go forward."""
    count = rng.randint(2, 14)
    invoked = sorted(2 * rng.randrange(3 * count) for _ in range(count))
    until = [at + 2 * rng.randint(1, rng.choice((3, 12))) if rng.random() < 0.9 else FOREVER for at in invoked]
    pairs = {tuple(rng.sample(range(count), 2)) for _ in range(rng.randint(1, 2 * count))}
    chosen = sorted(pair for pair in pairs if pair[0] < pair[1] or rng.random() < 0.4)
    source, target = column([pair[0] for pair in chosen]), column([pair[1] for pair in chosen])
    zeros = np.zeros(len(chosen), np.int64)
    times = column(invoked)
    return invoked, until, Edges(source, target, zeros, times[source], times[target], column(until)[target])


def on_cycles(invoked: list[int], until: list[int], edges: Edges) -> set[tuple[int, int]]:
    """Edges with both ends in one component, with every pair of real time besides."""
    count = len(invoked)
    reach = np.eye(count, dtype=bool)
    reach[edges.source, edges.target] = True
    for a in range(count):
        for b in range(count):
            reach[a, b] |= until[a] < invoked[b]
    for via in range(count):
        reach |= np.outer(reach[:, via], reach[via])
    return {(a, b) for a, b in zip(edges.source.tolist(), edges.target.tolist(), strict=True) if reach[b, a]}


def pairs_of(edges: Edges) -> set[tuple[int, int]]:
    return set(zip(edges.source.tolist(), edges.target.tolist(), strict=True))


def test_no_edge_of_a_cycle_is_dropped_whatever_the_round() -> None:
    dropped = acyclic = 0
    for seed in range(400):
        rng = random.Random(seed)
        invoked, until, edges = random_graph(rng)
        cyclic = on_cycles(invoked, until, edges)
        points = UNRAISED
        for _ in range(3):
            behind = edges.at(not_forward(edges, points))
            core = edges.at(within(edges, points, windows(behind, points)))
            assert cyclic <= pairs_of(core)
            dropped += len(edges) - len(core)
            if len(behind):
                # Any of them may be looked at in a round.
                points = raised(behind.at(np.array([rng.random() < 0.8 for _ in range(len(behind))])), points)
        time, _ = points.of(column(range(len(invoked))), column(invoked))
        assert np.all(time >= invoked) and np.all(time <= until)
        if not cyclic:
            acyclic += 1
            for _ in range(len(edges)):
                points = raised(edges.at(not_forward(edges, points)), points)
            assert not not_forward(edges, points).any()
    assert dropped > 1000 and acyclic > 50


def test_rounds_end_with_an_order_or_with_the_core() -> None:
    for seed in range(200):
        invoked, until, edges = random_graph(random.Random(seed))
        scan = scan_of(edges)
        found = collected(scan, len(edges), 1000)
        assert found.edges is not None
        cyclic = on_cycles(invoked, until, edges)
        assert cyclic <= pairs_of(found.edges)
        few = collected(scan, len(edges), 0)
        assert (few.edges is None) == bool(not_forward(edges, UNRAISED).any())


def scan_of(edges: Edges) -> Any:
    def scan(points: Points, spanned: Any) -> Edges:
        if spanned is None:
            return edges.at(not_forward(edges, points))
        return edges.at(within(edges, points, spanned))

    return scan


def parts(history: list[Txn], *, lists: bool, rows: int) -> list[Any]:
    """Whole keys, from batches of so many rows that cut them."""
    made = table(history, lists=lists, seed=rows)
    micro = pa.Table.from_batches([micro_operations(batch) for batch in made.to_batches(max_chunksize=rows)])
    by_key = micro.combine_chunks().sort_by([("key", "ascending")])
    return list(whole_keys(by_key.combine_chunks().to_batches(max_chunksize=rows)))


class InParts:
    """A history that is judged from its parts, as `warehouse.by_spark.transactions` does."""

    def __init__(self, history: list[Txn], *, lists: bool, rows: int = 5, assumed: Assumed | None = None) -> None:
        self.lists = lists
        self.parts = parts(history, lists=lists, rows=rows)
        self.rows = Rows(table(history, lists=lists), lists=lists)
        virtual, shown = 0, []
        for part in self.parts:
            shown.append(pieces(part, lists=lists, assumed=assumed or Assumed(), virtual=virtual))
            virtual = min(virtual, int(np.min(shown[-1].column("target").to_numpy(), initial=0)))
        #: By their part; each is a target of an edge, and no other number is below 0.
        targets = [one.column("target").to_pylist() for one in shown]
        self.virtual = {(part, node) for part, nodes in enumerate(targets) for node in nodes if node < 0}
        found = pa.Table.from_batches(shown)
        what = found.column("what").to_numpy()
        self.has_twice = bool((what == TWICE).any())
        self.seen = np.unique(found.column("source").to_numpy()[what == OBSERVED])
        self.anomalies = Counter(found.filter(pa.array(what == ANOMALY)).column("name").to_pylist())
        self.circles = int((what == CIRCLE).sum())
        self.chances: Counter[str] = Counter()
        for row in found.filter(pa.array(what == CHANCES)).to_pylist():
            self.chances[row["name"]] += row["source"]
        self.edges = Edges(*(found.column(name).to_numpy()[what == EDGE] for name in Edges._fields))

    def core(self) -> Judged:
        found = collected(scan_of(self.edges), len(self.edges), 10**6)
        assert found.edges is not None
        nodes = np.unique(np.concatenate([found.edges.source, found.edges.target]))
        c, chosen = self.rows.columns, np.isin(self.rows.numbers, nodes)
        columns = (self.rows.numbers, c.process, c.outcome, c.invoked, c.completed)
        return judged(found.edges, found.points, Transactions(*(np.ascontiguousarray(one[chosen]) for one in columns)))

    def unexplained(self, points: Points) -> set[int]:
        wrong = [explained(part, points, self.seen, lists=self.lists) for part in self.parts]
        return set(np.concatenate(wrong).tolist())


HISTORIES = [
    *[(history, True) for history in small_ones(150, lists=True)],
    *[(history, False) for history in small_ones(100, lists=False)],
    *[
        (longer(1, 150, lists=lists, isolation=how), lists)
        for lists in (True, False)
        for how in ("snapshot", "serializable")
    ],
]


@pytest.mark.parametrize("rows", [2, 7, 10_000])
def test_chances_of_parts_are_those_of_the_whole(rows: int) -> None:
    for history, lists in HISTORIES:
        in_parts = InParts(history, lists=lists, rows=rows)
        expected = chances_of(in_parts.rows.numbered(), lists=lists)
        assert in_parts.has_twice or Chances(**in_parts.chances) == expected


def whole(rows: Rows, assumed: Assumed) -> _core.TransactionReport:
    c = rows.numbered()
    given = (c.process, c.outcome, c.invoked, c.completed, c.first, c.kind, c.key, c.value)
    if rows.lists:
        return _core.check_list_append(*given, c.start, c.elements, realtime=True, steps=10**7)
    return _core.check_rw_register(*given, realtime=True, steps=10**7, **assumed._asdict())


@pytest.mark.parametrize("assumed", [Assumed(), Assumed(linearizable=True)])
def test_parts_come_to_what_the_whole_does(assumed: Assumed) -> None:
    seen = Counter[str]()
    for number, (history, lists) in enumerate(HISTORIES):
        if lists and assumed != Assumed():
            continue
        found = InParts(history, lists=lists, rows=1 + number % 7, assumed=assumed)
        try:
            wanted = whole(found.rows, assumed)
        except ValueError:
            assert found.has_twice or found.rows.open_twice() is not None
            continue
        assert found.anomalies == Counter(row[0] for row in wanted.anomalies)
        core = found.core()
        cycles = [name for name, _, _ in wanted.cycles if name != "cyclic-versions"]
        assert [name for name, _ in core.cycles] == cycles and found.circles == len(wanted.cycles) - len(cycles)
        assert (core.points is None) == (wanted.components > 0)
        seen.update(found.anomalies)
        seen.update(cycles)
        if core.points is not None and not found.anomalies and not found.circles:
            unexplained = found.unexplained(core.points)
            assert not unexplained or not lists
            seen["explained" if not unexplained else "another order"] += 1
    assert seen["explained"] > 20 and len(seen) > 10


def test_an_order_is_carried_out_on_the_rows() -> None:
    """Orders that are wrong in one place: a point moved, out of its interval or among others, and a list changed."""
    history = told("ax1 @0-9", "ax2 @1-8", "rx1,2 ay1 @2-20", "ry1 rx1,2 @3-30", "ax3 !info @4-5")
    found = InParts(history, lists=True)
    points = found.core().points
    assert points is not None and not found.unexplained(points)

    def at(**moved: tuple[int, int]) -> Points:
        given = {int(name[1:]): point for name, point in moved.items()}
        nodes = sorted(given)
        return Points(
            column(nodes), column([given[node][0] for node in nodes]), column([given[node][1] for node in nodes])
        )

    assert not found.unexplained(at(t0=(4, 0), t1=(4, 1), t2=(4, 2), t3=(40, 0)))
    assert found.unexplained(at(t0=(4, 1), t1=(4, 0))) == {0}
    assert found.unexplained(at(t0=(4, 0), t1=(4, 1), t2=(4, 2), t3=(62, 0))) == {0, 1}
    assert found.unexplained(at(t2=(10, 0))) == {1}
    assert found.unexplained(at(t0=(20, 0))) == {0}
    assert found.unexplained(at(t3=(4, 9))) == {0, 1}
    found.seen = column([4])
    assert not found.unexplained(points)
    found.parts = parts(told("ax1", "rx2"), lists=True, rows=9)
    assert found.unexplained(UNRAISED) == {0}
    found.parts = parts(told("ax1 @0-1", "ax2 @2-3", "rx1 @4-5"), lists=True, rows=9)
    assert found.unexplained(UNRAISED) == {0}
    registers = InParts(told("wx1 @0-9", "rx1 wx2 rx2 @1-10", "rx_ @2-3"), lists=False)
    assert registers.unexplained(UNRAISED) == {0}
    assert not registers.unexplained(at(t0=(6, 1), t1=(6, 2), t2=(4, 0)))
    assert not InParts(told("wx1 @0-1", "ry_ @2-3", "wz1 @4-5"), lists=False, rows=9).unexplained(UNRAISED)


def test_a_point_may_be_at_the_completion() -> None:
    """The writer is invoked when the reader ends, which is concurrent: the reader's point is there."""
    judged_ = InParts(told("rx1 @0-5", "ax1 @5-9"), lists=True)
    points = collected(scan_of(judged_.edges), len(judged_.edges), 10).points
    assert (points.time.tolist(), points.level.tolist()) == ([10], [1]) and not judged_.unexplained(points)


@pytest.mark.parametrize("lists", [True, False])
def test_what_an_unknown_outcome_read_is_not_carried_out(lists: bool) -> None:
    words = ("ay1 @0-1", "ax1 ry !info @2-9", "rx1 @3-8") if lists else ("wy1 @0-1", "wx1 ry7 !info @2-9", "rx1 @3-8")
    judged_ = InParts(told(*words), lists=lists)
    assert judged_.seen.tolist() == [1] and not judged_.unexplained(UNRAISED)


def test_no_more_edges_are_held_than_allowed() -> None:
    def edges(*pairs: tuple[int, int]) -> Edges:
        """Between transactions invoked at 2, 4, ..., that never end."""
        source, target = column([a for a, _ in pairs]), column([b for _, b in pairs])
        ends = 2 * source + 2, 2 * target + 2, np.full(len(pairs), FOREVER)
        return Edges(source, target, np.zeros(len(pairs), np.int64), *ends)

    # One edge of the circle is not forward, in each of two rounds; the core is all of it.
    circle = edges((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
    # Two are not forward; once they are, the third is not.
    chain = edges((3, 0), (5, 4), (0, 2))
    for given, limit, held in ((circle, 5, None), (circle, 6, 6), (chain, 2, None), (chain, 3, 0)):
        found = collected(scan_of(given), len(given), limit).edges
        assert (found if found is None else len(found)) == held


def test_what_parts_may_hold() -> None:
    with pytest.raises(RuntimeError, match="sorted by key"):
        list(whole_keys(reversed(parts(longer(1, 30, lists=True), lists=True, rows=8))))
    history = told("ax1 !info", "ay2 !info", "rx1")
    assert {INFO, OK} <= {txn.outcome for txn in history}
    assert InParts(history, lists=True).seen.tolist() == [0]


@pytest.mark.parametrize("case", [6, 7, 8, 9, 10, 11, 12, 13, 14])
def test_a_micro_operation_that_breaks_a_rule_is_told_with_its_part(case: int) -> None:
    """By the number of its transaction; what is null, by itself."""
    made, said = wrong(table(longer(3, 20, lists=True), lists=True))[case]
    (batch,) = made.combine_chunks().to_batches()
    found = pieces(micro_operations(batch), **ANY).to_pylist()[0]
    if case == 11:
        assert (found["what"], found["key"], found["kind"]) == (TWICE, 900, 1)
    else:
        told_ = f"transaction {found['source']}: {found['name']}"
        assert found["what"] == BROKEN and said in (found["name"] if found["kind"] == NO_TRANSACTION else told_)
        assert (found["kind"] == NO_TRANSACTION) == (case >= 12)


def test_of_broken_rules_the_first_is_told() -> None:
    made = table(told("ax1 @0-9", "ax2 @5-6", "ax3 @5-7", "ax4 @7-8"), lists=True)
    for row, ops in ((1, [op(0, 1, 2), op(3, 1)]), (2, [op(4, 0)]), (3, [op(5, 0)])):
        made = changed(made, "ops", row, ops)
    batches = [micro_operations(batch) for batch in reversed(made.to_batches(max_chunksize=1))]
    (part,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    (found,) = pieces(part, **ANY).to_pylist()
    assert (found["source"], found["source_time"]) == (1, 5)
    assert found["name"] == "micro-operation 1: f is 3, not 0 (write, append), 1 (read) or 2 (read, not answered)"


def test_a_register_may_not_hold_the_number_of_nothing() -> None:
    (batch,) = table(told("wx1", "rx-9223372036854775808"), lists=False).to_batches()
    part = micro_operations(batch)
    assert pieces(part, lists=False, assumed=Assumed()).column("what")[0].as_py() != BROKEN, "it is null there"
    value = pa.array([1, NIL], pa.int64())
    part = part.set_column(part.schema.get_field_index("value"), "value", value)
    (found,) = pieces(part, lists=False, assumed=Assumed()).to_pylist()
    assert (found["what"], found["source"]) == (BROKEN, 1) and f"value is {NIL}; nothing is null" in found["name"]


def test_rounds_leave_little_and_may_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a history of many that overlap hardly an edge is left; however many are, the core completes the order."""
    kept = []
    for rounds in (8, 1, 0):
        monkeypatch.setattr("fencepost.checkers.tables.transactions_core.ROUNDS", rounds)
        found = InParts(longer(1, 400, lists=True), lists=True, rows=100)
        core = collected(scan_of(found.edges), len(found.edges), 10**6).edges
        assert core is not None
        kept.append(len(core))
        points = found.core().points
        assert points is not None and not found.unexplained(points)
        assert not not_forward(found.edges, points).any()
    assert kept[0] == 0 < 2 * kept[1] < kept[2]


def test_many_readers_and_many_appends_that_nobody_saw() -> None:
    """Each key has nodes that stand for the pairs of them, and no other key's: these would lead back in time."""
    phases = []
    for number, key in enumerate("yx"):
        at = 100 * number
        phases.append(f"a{key}0 @{at}-{at + 1}")
        phases += [f"r{key}0 @{at + 2}-{at + 50}" for _ in range(10)]
        phases += [f"a{key}{value} @{at + 3}-{at + 51}" for value in range(1, 11)]
    found = InParts(told(*phases), lists=True, rows=4)
    assert len(found.parts) == 2 and (found.edges.target < 0).sum() > 20
    assert len({part for part, _ in found.virtual}) == 2
    assert sorted(node for _, node in found.virtual) == list(range(-len(found.virtual), 0)), "no two have one number"
    core = found.core()
    assert not core.cycles and core.points is not None and not found.unexplained(core.points)
