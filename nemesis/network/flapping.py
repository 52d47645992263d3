"""Flapping links: a node is cut off and connected again and again, about as fast as the system elects a leader.

A cut shorter than the election time-out is hardly noticed, and a long one is a partition. Around the time-out a node
loses its leader, starts an election and is back just before or after the others notice. The lengths of the cuts and of
the gaps between them are drawn between half of `period=` and one and a half times it. Its default is half of the
system's own bound on a cut-off leader, which for etcd and ZooKeeper is about the election time-out.

Each cut is recorded as a fault of its own and a part of this one. One probe of each of its links proves the cut, and
another one its end.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.faults.link_choice import LinkChoice
from fencepost.harness.faults.rounds import Rounds
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.network import Effect, Link, Reach

#: The period where the system names no bound.
_USUAL_NS: Final = 1_000_000_000
#: Shorter cuts would be over before they are proven.
_LEAST_NS: Final = 300_000_000
_PROBE_S: Final = 0.1
_OPEN_PROBE_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rhythm:
    """The mean length of cuts and of the gaps between them; `seed` draws each length."""

    period_ns: int
    seed: int


class FlappingOptions(LinkChoice, frozen=True, kw_only=True):
    # Each cut must be proven.
    period: Annotated[
        Duration | UnsetType,
        about(
            "mean length of a cut, and of a gap; unless given, half of the bound on a cut-off leader",
            least=2 * _LEAST_NS,
        ),
    ] = UNSET


class Flapping(FaultKind):
    name = "flapping"
    about = "links are cut and opened again and again, about as fast as the system elects"
    targets: Mapping[str, str] = NODE_TARGETS
    default_target = "leader"
    options = FlappingOptions(for_=seconds(10))
    for_all = ("flapping:leader:for=8s", "flapping:follower:direction=in:for=8s")

    def __init__(self) -> None:
        self._rounds: dict[int, Rounds] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(cuts=True)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        seed = draw.getrandbits(32)
        chosen = choose_nodes(spec.target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        options = spec.own(FlappingOptions)
        period_ns = (view.bound_ns or 2 * _USUAL_NS) // 2 if options.period is UNSET else int(options.period)
        links = options.between(chosen, [node for node in view.nodes if node not in chosen])
        return Resolved(
            nodes=chosen,
            means=_Rhythm(period_ns=period_ns, seed=seed),
            details={"period_ms": period_ns // 10**6, "flap_seed": seed},
            threatens=frozenset(links),
        )

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        rhythm = resolved.own(_Rhythm)
        draw = random.Random(rhythm.seed)
        links = sorted(resolved.threatens)

        def length_ns() -> int:
            return max(round(rhythm.period_ns * draw.uniform(0.5, 1.5)), _LEAST_NS)

        async def cut(number: int, rounds: Rounds) -> None:
            assert cluster.parts is not None
            part = Resolved(nodes=resolved.nodes, links=dict.fromkeys(links, Effect.DROP), details={"cut": number})
            hold_ns, gap_ns = length_ns(), length_ns()
            await cluster.parts.part(
                fault_id,
                part,
                inject=lambda part_id: rounds.proven(_shut(part_id, part, cluster)),
                hold_ns=hold_ns,
                heal=lambda part_id: _open(part_id, fault_id, part, cluster),
            )
            await asyncio.sleep(gap_ns / 1e9)

        rounds = self._rounds[fault_id] = Rounds(cut)
        return await rounds.begin()

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        rounds = self._rounds.pop(fault_id, None)
        if rounds is None:
            return Proof(FaultOutcome.HEALED, "it never began, or was healed before")
        await rounds.end()
        opened = await _opened(resolved.threatens, cluster, fault_id)
        if rounds.failure is not None or opened.outcome is not FaultOutcome.HEALED:
            return Proof(FaultOutcome.INDETERMINATE, f"{rounds.failure or opened.text}; {rounds.summary('cut')}")
        return Proof(FaultOutcome.HEALED, f"{rounds.summary('cut')}; {opened.text}")


async def _shut(part_id: int, part: Resolved, cluster: Cluster) -> Proof:
    network = cluster.runtime.network
    await network.apply(part_id, part.links)
    reaches = await network.probe(part.links, _PROBE_S)
    leaking = sorted(str(link) for link, reach in reaches.items() if reach is not Reach.DROPPED)
    if leaking:
        return Proof(FaultOutcome.INDETERMINATE, f"not shut: {', '.join(leaking)}")
    return Proof(FaultOutcome.INSTALLED, f"{len(reaches)} of {len(reaches)} links shut")


async def _open(part_id: int, fault_id: int, part: Resolved, cluster: Cluster) -> Proof:
    await cluster.runtime.network.withdraw(part_id)
    return await _opened(frozenset(part.links), cluster, fault_id)


async def _opened(links: frozenset[Link], cluster: Cluster, fault_id: int) -> Proof:
    """Prove that every link is open that no other fault cuts. Nodes on which another fault acts prove nothing."""
    network = cluster.runtime.network
    free = [link for link in links if link not in network.blocked]
    reaches = await network.probe(free, _OPEN_PROBE_S)
    others = cluster.disturbed(fault_id)
    closed = {link for link, reach in reaches.items() if reach is not Reach.OPEN and link not in network.blocked}
    shut = sorted(str(link) for link in closed if not others & {*link})
    if shut:
        return Proof(FaultOutcome.INDETERMINATE, f"still shut: {', '.join(shut)}")
    return Proof(FaultOutcome.HEALED, f"{len(free) - len(closed)} of {len(links)} links open")
