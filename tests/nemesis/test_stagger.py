"""Staggered stops, in virtual time: nodes are down together, come back in another order, and each stop is proven."""

import asyncio
import itertools
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults, parse_nemesis
from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.process.stagger import drawn_wave
from tests.fakes.virtual_time import run_virtual
from tests.faults.test_workers import Run

MS = 10**6
FAULTS = registry.faults()


def played(text: str, *, nodes: int, for_ms: int, seed: int = 1, keep_quorum: bool = False) -> Run:
    """The run of one such fault on a fake cluster."""
    run = Run(nodes=nodes, keep_quorum=keep_quorum)
    (spec,) = parse_faults(text, FAULTS, Placement(nodes=nodes))
    entry = ScheduledFault(spec=spec, inject_ns=0, duration_ns=for_ms * MS, draw_seed=seed)
    run_virtual(run.conductor.run([entry], stop=asyncio.Event()))
    return run


def parts(run: Run, action: FaultAction) -> list[FaultEvent]:
    return [event for event in run.ends(action) if "part_of" in event.details]


@given(
    nodes=st.integers(2, 7).map(lambda n: tuple(f"n{i}" for i in range(n))),
    longest_ms=st.integers(50, 5_000),
    seed=st.integers(0, 1_000),
)
def test_a_wave_has_all_down_together_and_brings_them_back_in_another_order(
    nodes: tuple[str, ...], longest_ms: int, seed: int
) -> None:
    step_ns, turns = drawn_wave(nodes, ("kill", "pause"), longest_ms * MS, random.Random(seed))
    assert 50 * MS <= step_ns <= longest_ms * MS
    assert sorted(turn.node for turn in turns) == sorted(nodes)
    assert max(turn.down_ns for turn in turns) < min(turn.back_ns for turn in turns)
    down = [turn.node for turn in sorted(turns, key=lambda turn: turn.down_ns)]
    back = [turn.node for turn in sorted(turns, key=lambda turn: turn.back_ns)]
    assert down != back
    for times in ([turn.down_ns for turn in turns], [turn.back_ns for turn in turns]):
        assert {b - a for a, b in itertools.pairwise(sorted(times))} == {step_ns}


def test_every_stop_is_a_proven_part_and_all_nodes_run_afterwards() -> None:
    run = played("stagger:majority", nodes=5, for_ms=6_000)
    stops, backs = parts(run, FaultAction.INJECT), parts(run, FaultAction.HEAL)
    assert {stop.outcome for stop in stops} == {FaultOutcome.INSTALLED}
    assert {back.outcome for back in backs} == {FaultOutcome.HEALED}
    assert len(stops) == len(backs) >= 3
    assert {stop.details["how"] for stop in stops} == {"kill", "pause"}
    first = [stop for stop in stops if stop.details["wave"] == 0]
    assert len({stop.nodes for stop in first}) == 3
    # The last of the first wave went down before the first of it came back.
    assert max(stop.time_ns for stop in first) < min(back.time_ns for back in backs)
    (whole,) = (event for event in run.ends(FaultAction.HEAL) if "part_of" not in event.details)
    assert whole.outcome is FaultOutcome.HEALED and f"{len(stops)} stops, {len(stops)} of them proven" in str(
        whole.proof
    )
    assert {node.state for node in run.runtime.nodes.values()} == {NodeState.RUNNING}


@pytest.mark.parametrize("how", ["kill", "pause"])
def test_a_person_chooses_how_nodes_stop(how: str) -> None:
    run = played(f"stagger:all:how={how}", nodes=3, for_ms=3_000)
    assert {stop.details["how"] for stop in parts(run, FaultAction.INJECT)} == {how}


def test_the_same_seed_draws_the_same_waves() -> None:
    def story(seed: int) -> list[Any]:
        stops = parts(played("stagger:all", nodes=3, for_ms=4_000, seed=seed), FaultAction.INJECT)
        return [(stop.time_ns, stop.nodes, stop.details["how"]) for stop in stops]

    assert story(3) == story(3)
    assert story(3) != story(4)


@pytest.mark.parametrize(
    ("nodes", "target", "skipped"), [(5, "minority", False), (5, "majority", True), (3, "all", True)]
)
def test_the_quorum_is_kept_where_that_is_asked_for(nodes: int, target: str, skipped: bool) -> None:
    run = played(f"stagger:{target}", nodes=nodes, for_ms=2_000, keep_quorum=True)
    outcomes = {event.outcome for event in run.ends(FaultAction.INJECT)}
    assert outcomes == ({FaultOutcome.SKIPPED} if skipped else {FaultOutcome.INSTALLED})


@pytest.mark.parametrize(("text", "nodes"), [("stagger:minority", 3), ("stagger:n1", 3), ("stagger:majority", 1)])
def test_one_node_cannot_overlap(text: str, nodes: int) -> None:
    with pytest.raises(UsageError, match=re.escape("it takes two to overlap")):
        parse_faults(text, FAULTS, Placement(nodes=nodes))


@pytest.mark.parametrize(("nodes", "targets"), [(3, {"majority", "all"}), (5, {"minority", "majority", "all"})])
def test_the_mixture_has_what_makes_sense_on_so_many_nodes(nodes: int, targets: set[str]) -> None:
    mixture = parse_nemesis("all", FAULTS, Placement(nodes=nodes))
    assert {spec.target for spec in mixture.specs if spec.fault == "stagger"} == targets
