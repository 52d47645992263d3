"""Facts as tables: against plain loops over random histories, against the checkers' own figures, and the cases of old.

The Spark analysis that these tables replace called a partition leader's epoch the controller's, and took the greatest
line of a node's log for its claim; both cases stand here.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fencepost.checkers.derived.derive import derive
from fencepost.harness.history import (
    BeliefEvent,
    CatchUp,
    CatchUpEvent,
    Claim,
    EpochEvent,
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    Operation,
    OpEvent,
    Outcome,
    PhaseEvent,
    PhaseName,
)
from fencepost.harness.judging.judge import judge
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_tables import DERIVED
from fencepost.harness.verdict.figures import ACTED, ASKED, CLAIMED_COUNT, values
from tests.warehouse.histories import random_history

FOUND = Path(__file__).parents[2] / "histories" / "found"
MS = 1_000_000
SEEDS = range(12)


def facts(**fields: Any) -> Facts:
    known: dict[str, Any] = {"system": "etcd", "workload": "register", "nodes": ("n1", "n2", "n3"), "guarantees": ()}
    return Facts(**{**known, "subjects": ("leader",), **fields})


def rows(history: History, name: str, **fields: Any) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = derive(history, facts(**fields))[name].to_pylist()
    return listed


@pytest.mark.parametrize("seed", SEEDS)
def test_every_table_has_its_schema(seed: int) -> None:
    tables = derive(History(random_history(seed)), facts())
    assert list(tables) == [table.name for table in DERIVED]
    for table in DERIVED:
        assert tables[table.name].schema.equals(table.schema), table.name


def test_a_history_without_events_has_empty_tables() -> None:
    tables = derive(History([]), facts())
    assert {name for name, table in tables.items() if len(table)} <= {"service"}


@pytest.mark.parametrize("seed", SEEDS)
def test_operations_are_those_of_the_history(seed: int) -> None:
    history = History(random_history(seed))
    kept = rows(history, "operations")
    assert len(kept) == len(history.operations)
    for row, op in zip(kept, history.operations, strict=True):
        for name in Operation.__struct_fields__:
            if name in row:
                assert row[name] == getattr(op, name), name
        assert row["latency_ns"] == (None if op.ended_ns is None else op.ended_ns - op.invoked_ns)
        assert row["phase"] == next((p for p, (a, b) in history.phases.items() if a <= op.invoked_ns < b), None)
        open_faults = [
            f
            for f in history.faults
            if f.began_ns <= op.invoked_ns and (f.ended_ns is None or op.invoked_ns < f.ended_ns)
        ]
        # Of faults that began at one moment, any may stand there.
        latest_ns = max((f.began_ns for f in open_faults), default=None)
        latest = [f.fault_id for f in open_faults if f.began_ns == latest_ns]
        assert row["fault_id"] in latest if latest else row["fault_id"] is None


def counted(history: History, node: str | None, from_ns: int, to_ns: int) -> dict[str, Any]:
    """What a plain loop over operations says of an interval."""
    own = [o for o in history.operations if node in (None, o.node)]
    inside = [o.type for o in own if from_ns <= o.invoked_ns < to_ns]
    ends = [o.completed_ns for o in own if o.type is Outcome.OK and o.completed_ns is not None]
    edges = [from_ns, *sorted(ns for ns in ends if from_ns <= ns < to_ns), to_ns]
    longest = max(b - a for a, b in pairwise(edges))
    return {
        "ok": inside.count(Outcome.OK),
        "fail": inside.count(Outcome.FAIL),
        "info": inside.count(Outcome.INFO),
        "longest_without_ok_ns": longest,
        "without_ok_from_ns": next(a for a, b in pairwise(edges) if b - a == longest),
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_service_phases_and_recovery_are_what_a_plain_loop_says(seed: int) -> None:
    history = History(random_history(seed))
    service, phases, recovery = (rows(history, name) for name in ("service", "phases", "recovery"))
    assert service
    assert phases
    for row in (*service, *phases):
        expected = counted(history, row.get("node"), row["from_ns"], row["to_ns"])
        assert {name: row[name] for name in expected} == expected
    for row in recovery:
        fault = next(f for f in history.faults if f.fault_id == row["fault_id"])
        to_ns = history.end_ns + 1 if fault.ended_ns is None else fault.ended_ns
        expected = counted(history, row["node"], fault.began_ns, to_ns)
        assert {name: row[name] for name in expected} == expected
        ends = [
            o.completed_ns
            for o in history.operations
            if row["node"] in (None, o.node) and o.type is Outcome.OK and o.completed_ns is not None
        ]
        after = [ns - fault.ended_ns for ns in ends if fault.ended_ns is not None and ns >= fault.ended_ns]
        assert row["recovered_after_ns"] == min(after, default=None)
    everyone = [row for row in service if row["node"] is None]
    assert sum(row["ok"] + row["fail"] + row["info"] for row in everyone) == len(history.operations)
    assert [row["from_ns"] for row in everyone[1:]] == [row["to_ns"] for row in everyone[:-1]]


@pytest.mark.parametrize("folder", sorted(p.name for p in FOUND.iterdir() if (p / "plan.toml").is_file()))
def test_they_agree_with_the_leadership_checker(folder: str) -> None:
    history, judgement = judge(FOUND / folder)
    tables = derive(history, judgement.facts)
    by_subject = {v.subject: values(v.figures) for v in judgement.verdicts if CLAIMED_COUNT in v.figures}
    episodes, overlaps = tables["zombie_episodes"].to_pylist(), tables["overlaps"].to_pylist()
    for subject, own in by_subject.items():
        of_subject = [e for e in episodes if e["subject"] == subject]
        # The logs may show that a superseded leader still led when no answer came, as while it is paused.
        assert sum(e["claimed_from_ns"] is not None for e in of_subject) == own[CLAIMED_COUNT]
        assert all(e["claimed_from_ns"] is not None for e in of_subject if e["claims"])
        assert sum(e["asked"] for e in of_subject) == own[ASKED]
        assert sum(e["acted"] for e in of_subject) == own[ACTED]
        assert sum(o["to_ns"] - o["from_ns"] for o in overlaps if o["subject"] == subject) == own["two_leaders_ns"]
    stale = next((values(v.figures)["stale_reads"] for v in judgement.verdicts if v.checker == "freshness"), None)
    assert stale in (None, len(tables["stale_answers"]))


def test_the_zombie_of_zookeeper_is_one_episode_with_its_rows() -> None:
    history, judgement = judge(FOUND / "zookeeper-3.9.5-stale-after-sync")
    episodes = derive(history, judgement.facts)["zombie_episodes"].to_pylist()
    (episode,) = [e for e in episodes if e["acted"]]
    assert (episode["node"], episode["epoch"], episode["superseded_by"]) == ("n2", 2, 3)
    assert (episode["acted"], episode["anomalies"]) == (8, ["stale-answer-by-superseded-leader"])
    begin, claim, *acts = episode["evidence"]
    assert history.events[begin].time_ns == episode["superseded_ns"] < history.events[claim].time_ns
    assert len(acts) == 8
    assert all(type(history.events[index]) is OpEvent for index in acts)


def recorded(*moments: tuple[int, type[Event], dict[str, Any]]) -> History:
    """Events at these milliseconds."""
    events = []
    for index, (ms, kind, fields) in enumerate(sorted(moments, key=lambda moment: moment[0])):
        more: dict[str, Any] = {"answered_ns": ms * MS} if kind is BeliefEvent else {}
        events.append(kind(index=index, time_ns=ms * MS, **more, **fields))
    return History(events)


def claim(node: str, ms: int, epoch: int, *, exact: bool = True) -> tuple[int, type[Event], dict[str, Any]]:
    fields = {"subject": "leader", "node": node, "incarnation": 0, "claims": Claim.YES, "asked_ns": (ms - 1) * MS}
    return ms, BeliefEvent, {**fields, "source": "status", "epoch": epoch, "epoch_exact": exact}


def test_the_epoch_of_a_topic_partition_is_not_the_controllers() -> None:
    of = {"process": 0, "f": "append", "node": "n1", "key": "p0"}
    cut = {"fault_id": 0, "fault": "partition", "target": "leader", "nodes": ("n1",), "action": FaultAction.INJECT}
    history = recorded(
        (0, PhaseEvent, {"phase": PhaseName.MAIN}),
        claim("n1", 10, 1),
        claim("n1", 90, 1),
        (14, FaultEvent, {**cut, "stage": FaultStage.BEGIN, "outcome": FaultOutcome.PENDING}),
        (15, FaultEvent, {**cut, "stage": FaultStage.END, "outcome": FaultOutcome.INSTALLED}),
        (20, OpEvent, {**of, "type": Outcome.INVOKE, "value": 1}),
        (30, OpEvent, {**of, "type": Outcome.OK, "value": 1, "epoch": 9, "position": 0}),
    )
    assert [(e["subject"], e["epoch"]) for e in rows(history, "epochs") if e["subject"] == "leader"] == [("leader", 1)]
    assert rows(history, "zombie_episodes") == rows(history, "overlaps") == []
    (everyone,) = (row for row in rows(history, "recovery") if row["node"] is None)
    assert (everyone["new_epoch"], everyone["new_leader_after_ns"]) == (None, None)


def test_a_log_line_that_is_read_late_makes_no_overlap() -> None:
    """n1 leads 1, n2 leads 2, n1 leads again 3, and the line of that is read 0.6 s late; epochs are lower bounds."""
    line = {"incarnation": 0, "source": "log"}
    history = recorded(
        (5, EpochEvent, {**line, "node": "n1", "epoch": 1}),
        *(claim("n1", ms, 1, exact=False) for ms in (10, 900)),
        (1000, EpochEvent, {**line, "node": "n2", "epoch": 2}),
        *(claim("n2", ms, 2, exact=False) for ms in (1001, 1990)),
        *(claim("n1", ms, 1, exact=False) for ms in (2010, 2300)),
        (2600, EpochEvent, {**line, "node": "n1", "epoch": 3}),
        claim("n1", 2700, 3, exact=False),
    )
    assert rows(history, "overlaps") == []
    assert rows(history, "zombie_episodes") == []


def test_how_nodes_caught_up_counts_from_the_main_phase_on() -> None:
    line = {"incarnation": 0, "source": "log", "node": "n2"}
    history = recorded(
        (5, CatchUpEvent, {**line, "change": CatchUp.DIFFERENCE}),
        (10, PhaseEvent, {"phase": PhaseName.MAIN}),
        (20, CatchUpEvent, {**line, "change": CatchUp.SNAPSHOT}),
    )
    (row,) = rows(history, "catch_ups")
    assert (row["node"], row["how"], row["read_ns"]) == ("n2", "snapshot", 20 * MS)
    assert type(history.events[row["event"]]) is CatchUpEvent
