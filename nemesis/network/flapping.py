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
from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof, Resolved, View
from fencepost.harness.faults.link_choice import LinkChoice
from fencepost.harness.faults.rounds import FaultRounds
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.network import Effect, Reach
from fencepost.nemesis.network.partition import prove_open

#: The period where the system names no bound.
_USUAL_NS: Final = 1_000_000_000
#: Shorter cuts would be over before they are proven.
_LEAST_NS: Final = 300_000_000
_PROBE_S: Final = 0.1


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
    draws = True
    for_all = ("flapping:leader:for=8s", "flapping:follower:direction=in:for=8s")

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(cuts=True)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(FlappingOptions)
        period_ns = (view.bound_ns or 2 * _USUAL_NS) // 2 if options.period is UNSET else int(options.period)
        links = options.between(nodes, [node for node in view.nodes if node not in nodes])
        details = {"period_ms": period_ns // 10**6, "flap_seed": seed}
        return Resolved(nodes=nodes, seed=seed, means=period_ns, details=details, threatens=frozenset(links))

    async def inject(self, act: Act) -> Proof:
        draw, period_ns = random.Random(act.resolved.seed), act.means(int)
        links = dict.fromkeys(sorted(act.resolved.threatens), Effect.DROP)

        def length_ns() -> int:
            return max(round(period_ns * draw.uniform(0.5, 1.5)), _LEAST_NS)

        async def cut(number: int, rounds: FaultRounds) -> None:
            hold_ns, gap_ns = length_ns(), length_ns()
            await act.part(
                Resolved(nodes=act.resolved.nodes, links=links, details={"cut": number}),
                inject=lambda part: rounds.proven(_shut(part)),
                hold_ns=hold_ns,
                heal=lambda part: _open(part, act),
            )
            await asyncio.sleep(gap_ns / 1e9)

        return await FaultRounds(cut, "cut").begin(act)

    async def heal(self, act: Act) -> Proof:
        return await prove_open(act.resolved.threatens, act)


async def _shut(part: Act) -> Proof:
    network, links = part.cluster.runtime.network, part.resolved.links
    await network.apply(part.fault_id, links)
    reaches = await network.probe(links, _PROBE_S)
    leaking = sorted(str(link) for link, reach in reaches.items() if reach is not Reach.DROPPED)
    if leaking:
        return Proof(FaultOutcome.INDETERMINATE, f"not shut: {', '.join(leaking)}")
    return Proof(FaultOutcome.INSTALLED, f"{len(reaches)} of {len(reaches)} links shut")


async def _open(part: Act, whole: Act) -> Proof:
    await part.cluster.runtime.network.withdraw(part.fault_id)
    return await prove_open(part.resolved.links, whole)
