"""Faults made of parts, in virtual time: whatever moment ends the whole, every part is healed and says so."""

import asyncio
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.checkers import coverage
from fencepost.checkers.derived.servers import unproven_acts
from fencepost.harness.history import PART_OF, Event, FaultAction, FaultEvent, FaultOutcome, FaultStage, History
from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.runtime.node import NodeState
from tests.checkers.build import facts
from tests.fakes.fakes_runtime import FakeNetwork, FakeNode
from tests.fakes.virtual_time import run_virtual
from tests.faults.test_workers import Run, entry

#: Every kind whose parts are stopped and started, or cut and opened, beside its own healing.
WHOLES = ("stagger:all:how=kill", "stagger:all", "stagger:majority:how=pause", "flapping:leader:period=600ms")


class SlowNode(FakeNode):
    """A node on which every act takes a while, so that the whole is ended in the middle of some part's healing."""

    takes_s = 0.05

    async def start(self) -> None:
        await asyncio.sleep(self.takes_s)
        await super().start()

    async def kill(self) -> None:
        await asyncio.sleep(self.takes_s / 3)
        await super().kill()

    async def resume(self) -> None:
        await asyncio.sleep(self.takes_s)
        await super().resume()


class SlowNetwork(FakeNetwork):
    takes_s = 0.05

    async def withdraw(self, fault_id: int) -> None:
        await asyncio.sleep(self.takes_s)
        await super().withdraw(fault_id)


def played(texts: tuple[str, ...], *, for_ms: int, takes_ms: int, seed: int) -> History:
    """The history of these workers on three slow nodes; each has one whole fault."""
    run = Run(nodes=3)
    run.runtime.nodes = {name: SlowNode(name) for name in run.runtime.nodes}
    run.runtime.network = SlowNetwork([*run.runtime.nodes, CLIENT])
    for slow in (*run.runtime.nodes.values(), run.runtime.network):
        slow.takes_s = takes_ms / 1000  # type: ignore[attr-defined]
    entries = [entry(text, 0, for_ms, worker=worker, seed=seed) for worker, text in enumerate(texts)]
    run_virtual(run.conductor.run(entries, stop=asyncio.Event()))
    assert {node.state for node in run.runtime.nodes.values()} == {NodeState.RUNNING}
    assert not run.runtime.network.blocked
    return History(run.records.events)


@pytest.mark.parametrize("whole", WHOLES)
@given(for_ms=st.integers(100, 1_500), takes_ms=st.integers(1, 300), seed=st.integers(0, 2**16))
@settings(max_examples=15, deadline=None)
def test_a_fault_that_is_ended_while_a_part_is_healed_is_healed(
    whole: str, for_ms: int, takes_ms: int, seed: int
) -> None:
    history = played((whole,), for_ms=for_ms, takes_ms=takes_ms, seed=seed)
    assert any(PART_OF in fault.details for fault in history.faults)
    by = {(e.fault_id, e.action, e.stage): e for e in history.of(FaultEvent)}
    for fault in history.faults:
        assert by[fault.fault_id, FaultAction.HEAL, FaultStage.END].outcome is FaultOutcome.HEALED
        assert fault.ended_ns is not None
    assert not unproven_acts(history)
    (verdict,) = coverage.check(history, facts(nemesis=(whole,)))
    assert "healed" not in verdict.reason and "proven" not in verdict.reason


@given(
    wholes=st.sampled_from([*itertools.permutations(("stagger:majority", "flapping:n3", "kill:n1"), 2)]),
    for_ms=st.integers(100, 1_500),
    takes_ms=st.integers(1, 300),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=15, deadline=None)
def test_wholes_that_overlap_are_healed_in_any_order(
    wholes: tuple[str, str], for_ms: int, takes_ms: int, seed: int
) -> None:
    history = played(wholes, for_ms=for_ms, takes_ms=takes_ms, seed=seed)
    assert all(fault.ended_ns is not None for fault in history.faults)
    assert not unproven_acts(history)


# -- histories of before, in which the end of a part's healing is missing -----------------------------------------


def _acts(order: tuple[int, ...], left_open: int, unproven: int, whole: FaultOutcome) -> History:
    """A whole fault 0 whose parts 1 to 3 are healed in this order: `left_open` without an end, `unproven` in doubt."""
    events: list[Event] = []

    def tell(fault_id: int, action: FaultAction, stage: FaultStage, outcome: FaultOutcome) -> None:
        details: dict[str, str | int | float | bool] = {PART_OF: 0} if fault_id else {}
        fields = {"fault": "stagger", "target": "all", "nodes": ("n1",), "details": details}
        events.append(
            FaultEvent(
                index=len(events),
                time_ns=len(events) * 10**6,
                fault_id=fault_id,
                action=action,
                stage=stage,
                outcome=outcome,
                **fields,  # type: ignore[arg-type]
            )
        )

    for fault_id in range(4):
        tell(fault_id, FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING)
        tell(fault_id, FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED)
    for fault_id in order:
        tell(fault_id, FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING)
        if fault_id != left_open:
            doubtful = FaultOutcome.INDETERMINATE if fault_id == unproven else FaultOutcome.HEALED
            tell(fault_id, FaultAction.HEAL, FaultStage.END, doubtful)
    tell(0, FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING)
    tell(0, FaultAction.HEAL, FaultStage.END, whole)
    return History(events)


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
@pytest.mark.parametrize("left_open", [0, 1, 2, 3])
@pytest.mark.parametrize("unproven", [0, 1, 2, 3])
@pytest.mark.parametrize("whole", [FaultOutcome.HEALED, FaultOutcome.INDETERMINATE])
def test_a_part_is_healed_by_its_own_healing_or_by_that_of_the_whole(
    order: tuple[int, ...], left_open: int, unproven: int, whole: FaultOutcome
) -> None:
    history = _acts(order, left_open, unproven, whole)
    never = [fault.fault_id for fault in history.faults if fault.ended_ns is None]
    doubtful = [act.fault_id for act in unproven_acts(history)]
    if whole is FaultOutcome.HEALED:
        assert (never, doubtful) == ([], [])
    else:
        assert never == ([left_open] if left_open else [])
        assert doubtful == [*([unproven] if unproven not in (0, left_open) else []), 0]
