"""Lanes and timeline data: stretches, epochs from logs, superseded claims on both sides of the bound, cuts, packing."""

import base64
import random
import re
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.history import Claim, EpochEvent, NodeChange, NodeEvent, Outcome
from fencepost.harness.report.overview import LaneState, lanes
from fencepost.harness.report.section import ReportCase
from fencepost.harness.report.svg import LETTER, WIDTH, TimeAxis, fault_bands, packed
from fencepost.harness.report.timeline import cut, focus, timeline
from fencepost.harness.verdict import Vocabulary
from tests.report import sample
from tests.report.sample import lanes_of
from tests.report.sample_kraft import kraft_zombie
from tests.report.tape import MS, S, Tape


def test_stretches_follow_what_the_node_said() -> None:
    tape = Tape()
    for at, claims, epoch in ((0, Claim.NO, 1), (100, Claim.YES, 2), (200, Claim.YES, 2), (300, Claim.NO, 3)):
        tape.belief(at * MS, (at + 2) * MS, "n1", claims, epoch)
    lane = lanes_of(tape.history(), ("n1",)).by_node["n1"]
    said = [(s.state, s.epoch, s.from_ns // MS, s.to_ns // MS) for s in lane]
    assert said == [(LaneState.FOLLOWER, 1, 2, 102), (LaneState.LEADER, 2, 102, 302), (LaneState.FOLLOWER, 3, 302, 302)]


def test_claim_is_superseded_only_when_asked_after_the_later_epoch_began() -> None:
    tape = Tape()
    tape.belief(0, 10 * MS, "n1", Claim.YES, 1)
    tape.belief(100 * MS, 120 * MS, "n2", Claim.YES, 2)
    tape.belief(110 * MS, 130 * MS, "n1", Claim.YES, 1)  # straddles: proves nothing
    assert lanes_of(tape.history(), ()).by_node["n1"][0].superseded is None
    tape.belief(121 * MS, 140 * MS, "n1", Claim.YES, 1)
    assert lanes_of(tape.history(), ()).by_node["n1"][0].superseded == (120 * MS, 121 * MS)


def test_a_question_asked_of_a_paused_node_speaks_of_the_time_after_the_pause() -> None:
    tape = Tape()
    tape.fault(1, "pause", ("n1",), (50 * MS, 60 * MS, 200 * MS, 210 * MS))
    tape.belief(0, 10 * MS, "n1", Claim.YES, 1)
    tape.belief(100 * MS, 120 * MS, "n2", Claim.YES, 2)
    tape.belief(110 * MS, 230 * MS, "n1", Claim.YES, 1)  # asked too early, but answered after 200 ms at the earliest
    assert lanes_of(tape.history(), ()).by_node["n1"][0].superseded == (120 * MS, 200 * MS)


def test_epoch_of_an_inexact_claim_comes_from_the_log() -> None:
    tape = Tape()
    tape.add(EpochEvent, 50 * MS, node="n1", incarnation=0, epoch=7, source="became leader at term 7")
    tape.belief(60 * MS, 61 * MS, "n1", Claim.YES, 6, epoch_exact=False)
    tape.belief(60 * MS, 61 * MS, "n2", Claim.YES, 6, epoch_exact=False)
    found = lanes_of(tape.history(), ()).by_node
    assert [(s.epoch_text, s.exact) for s in found["n1"]] == [("7", True)]
    assert [s.epoch_text for s in found["n2"]] == ["≥6"]


def test_a_log_line_that_is_read_late_makes_no_superseded_claim() -> None:
    """n1 leads 1, n2 leads 2, n1 leads 3; the line of 3 is read 0.6 s after n1's first claim of it."""
    tape = Tape()
    tape.add(EpochEvent, 10 * MS, node="n1", incarnation=0, epoch=1, source="became leader at term 1")
    tape.belief(20 * MS, 30 * MS, "n1", Claim.YES, 1, epoch_exact=False)
    tape.add(EpochEvent, 2_000 * MS, node="n2", incarnation=0, epoch=2, source="became leader at term 2")
    tape.belief(4_000 * MS, 4_010 * MS, "n1", Claim.YES, 2, epoch_exact=False)
    tape.add(EpochEvent, 4_600 * MS, node="n1", incarnation=0, epoch=3, source="became leader at term 3")
    tape.belief(4_700 * MS, 4_710 * MS, "n1", Claim.YES, 3, epoch_exact=False)
    lane = lanes_of(tape.history(), ("n1", "n2")).by_node["n1"]
    assert [(s.epoch_text, s.superseded) for s in lane] == [("1", None), ("≥2", None), ("3", None)]


@pytest.mark.parametrize("make", [sample.zookeeper_invalid, kraft_zombie])
def test_lanes_show_the_claims_that_the_table_counts(make: Callable[[], ReportCase]) -> None:
    case = make()
    shown = lanes(case.history, case.facts.nodes, case.derived)
    late = {index for of_subject in shown.every for stretch in of_subject.claims() for index in stretch.late}
    begun = {(row["subject"], row["epoch"]): row["begun_ns"] for row in case.rows("epochs")}
    counted = {
        claim["index"]
        for claim in case.rows("claims")
        if claim["epoch"] is not None
        and any(s == claim["subject"] and e > claim["epoch"] and ns < claim["lo_ns"] for (s, e), ns in begun.items())
    }
    assert late == counted
    assert late


def test_a_dead_process_is_down_not_silent() -> None:
    tape = Tape()
    tape.belief(0, MS, "n1", Claim.YES, 1)
    tape.add(NodeEvent, 10 * MS, node="n1", change=NodeChange.EXITED, incarnation=0)
    for at in (20, 120):
        tape.belief(at * MS, (at + 10) * MS, "n1", Claim.SILENT, None)
    tape.add(NodeEvent, 200 * MS, node="n1", change=NodeChange.STARTED, incarnation=1)
    tape.belief(210 * MS, 211 * MS, "n1", Claim.NO, 2, incarnation=1)
    lane = [(s.state, s.from_ns // MS, s.to_ns // MS) for s in lanes_of(tape.history(), ()).by_node["n1"]]
    assert lane == [
        (LaneState.LEADER, 1, 10),
        (LaneState.DOWN, 10, 200),
        (LaneState.SILENT, 200, 211),
        (LaneState.FOLLOWER, 211, 211),
    ]


def test_everything_is_kept_below_the_limit_and_the_witness_above_it() -> None:
    operations = sample.huge(3_000).history.operations
    whole = cut(operations, set(), None, most=3_000)
    assert len(whole.kept) == 3_000
    assert "All" in whole.summary
    some = operations[1_234]
    part = cut(operations, {some.invoke_index}, (some.invoked_ns, some.invoked_ns + S), most=500)
    assert len(part.kept) == 500
    assert 1_234 in part.kept
    assert part.kept == tuple(sorted(set(part.kept)))
    failed = sum(operations[i].type is not Outcome.OK for i in part.kept)
    assert failed == sum(o.type is not Outcome.OK for o in operations)  # 5 %: all have room
    assert "500 of 3\u202f000" in part.summary


def test_witnesses_are_kept_wherever_they_stand() -> None:
    operations = sample.huge(3_000).history.operations
    ok = [i for i, o in enumerate(operations) if o.type is Outcome.OK]
    wanted = set(random.Random(3).sample(ok, 40))
    kept = cut(operations, {operations[i].invoke_index for i in wanted}, None, most=100).kept
    assert wanted <= set(kept)
    assert len(kept) == 100
    alone = cut(operations, {operations[i].invoke_index for i in wanted}, None, most=10).kept
    assert wanted == set(alone)  # more than the limit, and nothing else


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=40))
def test_packed_rows_never_overlap(raw: list[tuple[int, int]]) -> None:
    intervals = sorted((start, start + length) for start, length in raw)
    rows = packed(intervals)
    for i, (a, row) in enumerate(zip(intervals, rows, strict=True)):
        for b, other in list(zip(intervals, rows, strict=True))[:i]:
            assert row != other or b[1] <= a[0]


def test_columns_decode_to_the_operations() -> None:
    case = sample.zookeeper_invalid()
    witnesses = case.verdicts[0].witnesses
    data, chosen = timeline(
        case.history, lanes(case.history, case.facts.nodes, case.derived), witnesses, Vocabulary(hexadecimal=True)
    )
    ops, count = data["ops"], len(chosen.kept)
    starts = struct.unpack(f"<{count}i", base64.b64decode(ops["start"]))
    flags = struct.unpack(f"<{count}B", base64.b64decode(ops["flags"]))
    kept = [case.history.operations[i] for i in chosen.kept]
    for op, start, flag in zip(kept, starts, flags, strict=True):
        assert start == op.invoked_ns // data["unitNs"]
        expected = 3 if op.error == "cas-mismatch" else {Outcome.OK: 0, Outcome.FAIL: 1, Outcome.INFO: 2}[op.type]
        assert flag & 3 == expected
        assert bool(flag & 4) == (op.process in (900, 901, 902))
    assert {s["state"] for s in data["stretches"]} == {"leader", "follower", "silent"}


def test_focus_is_on_the_operations_not_on_what_came_long_before() -> None:
    case = sample.zookeeper_invalid()
    witness = case.verdicts[0].witnesses[0]
    fault = case.history.faults[0].events[0]
    early = type(witness)(
        anomaly="a", events=(fault, *witness.events), steps=(), from_ns=0, to_ns=witness.to_ns, nodes=()
    )
    window = focus([early], case.history)
    assert window is not None
    assert window[0] > 11 * S


def test_a_run_of_hours_fits_into_the_columns() -> None:
    tape = Tape()
    tape.op(10 * 3600 * S, 10 * 3600 * S + MS, 1, "read", "n1")
    tape.op(1, None, 2, "write", "n1", value=random.Random(1).randrange(9))
    history = tape.history()
    data, _ = timeline(history, lanes_of(history, ("n1",)), (), Vocabulary(epoch="term"))
    assert data["end"] < 2**31
    assert data["nodes"] == [{"name": "n1", "rows": 2, "lanes": [""]}]


def test_the_name_of_a_fault_at_the_right_edge_is_whole() -> None:
    tape = Tape()
    tape.fault(1, "partition", ("n1", "n2"), (100 * S, 101 * S, 102 * S, 103 * S))
    tape.fault(2, "clock-skew", ("n1", "n2", "n3"), (108 * S, 109 * S, 110 * S, 110 * S))
    picture, rows = fault_bands(tape.history().faults, TimeAxis(0, 110 * S), 0, 100, 110 * S)
    names = re.findall(r'<text x="([\d.]+)"[^>]*>([^<]+)<', picture)
    assert {name for _, name in names} == {"partition n1,n2", "clock-skew n1,n2,n3"} and rows == 2
    assert all(float(x) + len(name) * LETTER < WIDTH for x, name in names)
