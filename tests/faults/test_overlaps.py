"""What a mixture draws beside its faults: how much of a run it overlaps, and what it may take from a quorum."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from fencepost.harness.base.quorum import Damage, QuorumView, as_pair, quorum_of, worst
from fencepost.harness.faults.conductor import damages_of
from fencepost.harness.faults.forecast import drawn, look_ahead
from fencepost.harness.faults.schedule import ScheduledFault
from fencepost.harness.history import FaultAction, FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import NodeState
from tests.fakes.virtual_time import run_virtual
from tests.faults.test_workers import FAULTS, Run, surroundings

S, LIMIT_NS = 10**9, 60 * 10**9
#: Kinds that processes and links without servers can take.
_BARE = ("kill", "pause", "partition", "stagger", "gray", "flapping")


def _workers(name: str, nodes: int, seed: int, *, bare: bool = False) -> list[list[ScheduledFault]]:
    around = surroundings(60, nodes=nodes, seed=seed, system=registry.system(name))
    ahead = look_ahead("all", FAULTS, around, can=lambda kind: None if not bare or kind in _BARE else "no server")
    return [list(entries) for entries in drawn(ahead.request, FAULTS, around)]


def _share(spans: Sequence[tuple[int, int]]) -> float:
    """For which share of the time two or more are in force."""
    ends = sorted({at for span in spans for at in span})
    return sum(b - a for a, b in itertools.pairwise(ends) if sum(s <= a and b <= e for s, e in spans) > 1) / LIMIT_NS


@pytest.mark.parametrize(("name", "nodes"), [("example", 3), ("etcd", 5), ("kraft", 3), ("nats", 5), ("cassandra", 3)])
def test_two_faults_overlap_for_more_than_a_third_of_the_time(name: str, nodes: int) -> None:
    shares, shapes = list[float](), set[object]()
    for seed in range(10):
        workers = _workers(name, nodes, seed)
        for entries in workers:
            ends = [entry.inject_ns + entry.duration_ns for entry in entries]
            assert max(ends) <= LIMIT_NS and all(b.inject_ns >= a for a, b in zip(ends, entries[1:], strict=False))
        spans = sorted((e.inject_ns, e.inject_ns + e.duration_ns) for e in itertools.chain(*workers))
        shares.append(_share(spans))
        pairs = [(b, d) for (_, b), (c, d) in itertools.combinations(spans, 2) if c < b]
        shapes |= {("healed first" if d < b else "healed last", abs(d - b) < S) for b, d in pairs}
        shapes |= {"again" for a, b in itertools.pairwise(workers[0]) if b.spec.target == "returned" and a.gap_ns < S}
    assert sum(shares) / len(shares) > 1 / 3 and len(shapes) == 5, (shares, shapes)


def _played(nodes: int, seed: int, *, bounded: bool) -> tuple[Run, bool]:
    """Play a drawn run; say whether the quorum was ever worse than under the worst of the faults in force."""
    run, order, worse = Run(nodes=nodes), list(QuorumView), False
    names = list(run.runtime.nodes)

    def look() -> bool:
        down = frozenset(name for name, node in run.runtime.nodes.items() if node.state is not NodeState.RUNNING)
        cut = frozenset(as_pair(str(link)) for link in run.runtime.network.blocked)
        active = [(FAULTS[r.entry.spec.fault], r.act) for r in run.conductor._active.values()]
        alone = [worst([names], [damages_of(fault, act.resolved)]) for fault, act in active if act]
        reached = [name for name in names if name not in down and not any(name in pair for pair in cut)]
        run.leader = run.leader if run.leader in reached else next(iter(reached), None)
        now = quorum_of(names, Damage(absent=down, severed=cut))
        return order.index(now) > max(map(order.index, alone), default=0)

    async def scenario() -> None:
        nonlocal worse
        entries = [replace(e, bounded=bounded) for e in itertools.chain(*_workers("etcd", nodes, seed, bare=True))]
        playing = asyncio.create_task(run.conductor.run(entries, stop=asyncio.Event()))
        while not playing.done():
            worse |= look()
            await asyncio.sleep(0.02)
        await playing

    run_virtual(scenario())
    return run, worse


@pytest.mark.parametrize("nodes", [3, 5])
def test_faults_together_take_no_more_from_the_quorum_than_one_of_them_and_all_are_healed(nodes: int) -> None:
    broken = 0
    for seed in range(6):
        run, worse = _played(nodes, seed, bounded=True)
        assert not worse, seed
        assert {node.state for node in run.runtime.nodes.values()} == {NodeState.RUNNING}
        assert not run.runtime.network.blocked
        healed = {e.fault_id for e in run.ends(FaultAction.HEAL) if e.outcome is FaultOutcome.HEALED}
        assert healed == {e.fault_id for e in run.ends(FaultAction.INJECT) if e.outcome is FaultOutcome.INSTALLED}
        broken += _played(nodes, seed, bounded=False)[1]
    # Without the bound the same draws do break it; of five nodes they take two at most.
    assert broken or nodes == 5
