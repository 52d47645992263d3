"""Administration: an operator maintains servers while they serve, by one request after another.

What a store does then is seldom met otherwise: it rewrites its files, forgets old versions, changes its members, hands
over what is led. A system names its requests (`BaseSystem.maintenance`); none of them takes a promise away. Each is
recorded as a part of this fault, with the answer as its proof. No request goes to a node that another fault acts on.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal, choices_hint
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof, Resolved
from fencepost.harness.faults.rounds import PATIENCE_S, FaultRounds
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement

#: A defragmentation of a large store takes seconds.
_ASK_S: Final = 4.0
_ANY: Final = "any"


class AdministerOptions(FaultOptions, frozen=True, kw_only=True):
    do: Annotated[str, about("which request of the system; any: one of them, drawn each time")] = _ANY
    every: Annotated[Duration, about("time from one request to the next")] = seconds(1)


class Administer(FaultKind):
    name = "administer"
    about = "a server is maintained while it serves, by requests such as compact, defragment, purge"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = AdministerOptions(for_=seconds(6))
    needs = frozenset({"maintenance"})
    draws = True
    for_all = ("administer:one", "administer:leader")

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects()

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        do = spec.own(AdministerOptions).do
        names = [_ANY, *(placement.system.maintenance or ())] if placement.system else [do]
        return None if do in names else Refusal(f"there is no request {do}", choices_hint(do, names))

    async def inject(self, act: Act) -> Proof:
        maintenance = act.cluster.system.maintenance
        assert maintenance is not None, "refused before the run"
        options, draw = act.options(AdministerOptions), random.Random(act.resolved.seed)
        names = sorted(maintenance) if options.do == _ANY else [options.do]

        async def play(number: int, rounds: FaultRounds) -> None:
            node, name = act.nodes[number % len(act.nodes)], draw.choice(names)
            if node.state is not NodeState.RUNNING or node.name in act.disturbed():
                await asyncio.sleep(PATIENCE_S)
                return
            await act.part(
                Resolved(nodes=(node.name,), details={"do": name}),
                inject=lambda _: rounds.proven(_answered(name, maintenance[name], node)),
                heal=self.heal,
            )
            await asyncio.sleep(options.every / 1e9)

        return await FaultRounds(play, "request").begin(act)

    async def heal(self, act: Act) -> Proof:
        return Proof(FaultOutcome.HEALED, "a request is over with its answer")


async def _answered(name: str, request: MaintenanceRequest, node: Node) -> Proof:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        async with asyncio.timeout(_ASK_S):
            answer = await request(node.place)
    except Definite as error:
        return Proof(FaultOutcome.SKIPPED, f"{node.name} refused to {name} ({error})")
    except (Indefinite, TimeoutError) as error:
        why = str(error) or f"not answered within {_ASK_S:g} s"
        return Proof(FaultOutcome.INDETERMINATE, f"{node.name} did not say whether it did {name} ({why})")
    return Proof(FaultOutcome.INSTALLED, f"{name} on {node.name}: {answer}, in {(loop.time() - began_s) * 1e3:.0f} ms")
