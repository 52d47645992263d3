"""Administration: an operator maintains servers while they serve, by one request after another.

What a store does then is seldom met otherwise: it rewrites its files, forgets old versions, changes its members, hands
over what is led. A system names its requests (`BaseSystem.maintenance`); none of them takes a promise away. Each is
recorded as a part of this fault, with the answer as its proof. No request goes to a node that another fault acts on.

Some requests change what clients get, such as a limit that is reached. The change is taken back a moment later, by way
of any node that answers, and once more at the end: a request without an answer may be carried out late.
"""

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal, choices_hint
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.system import AsksNode, MaintenanceRequest
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, NotUndone, Proof, Resolved
from fencepost.harness.faults.rounds import PATIENCE_S, FaultRounds
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement

#: A defragmentation of a large store takes seconds.
_ASK_S: Final = 4.0
#: All nodes are asked within the time of one healing.
_UNDO_S: Final = 2.0
#: How long a change stays.
_CHANGED_NS: Final = 300_000_000
_ANY: Final = "any"


class AdministerOptions(FaultOptions, frozen=True, kw_only=True):
    do: Annotated[
        str, about("which request of the system (`fencepost list systems NAME`); any: one of them, drawn each time")
    ] = _ANY
    every: Annotated[Duration, about("time from one request to the next")] = seconds(1)


class Administer(FaultKind):
    name = "administer"
    about = "a server is maintained while it serves, by requests such as compact, defragment, purge"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = AdministerOptions(for_=seconds(6))
    needs = frozenset({"maintenance"})
    reconfigures = True
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
        changed = act.keep(dict[str, AsksNode]())

        async def play(number: int, rounds: FaultRounds) -> None:
            node, name = act.nodes[number % len(act.nodes)], draw.choice(names)
            if node.state is not NodeState.RUNNING or node.name in act.disturbed():
                await asyncio.sleep(PATIENCE_S)
                return
            request = maintenance[name]
            if request.undo is not None:
                changed[name] = request.undo
            await act.part(
                Resolved(nodes=(node.name,), details={"do": name}),
                inject=lambda part: rounds.proven(_answered(name, request, node, part)),
                heal=self.heal,
                hold_ns=_CHANGED_NS if request.undo else 0,
            )
            await asyncio.sleep(options.every / 1e9)

        return await FaultRounds(play, "request").begin(act)

    async def heal(self, act: Act) -> Proof:
        # Of the whole fault; what a part changed is on its stack.
        taken_back = [await _taken_back(undo, act) for undo in (act.kept(dict) or {}).values()]
        return Proof(FaultOutcome.HEALED, "; ".join([*taken_back, "a request is over with its answer"]))


async def _answered(name: str, request: MaintenanceRequest, node: Node, part: Act) -> Proof:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    if request.undo is not None:
        part.undo(partial(_taken_back, request.undo, part))
    try:
        async with asyncio.timeout(_ASK_S):
            answer = await request.ask(node)
    except Definite as error:
        return Proof(FaultOutcome.SKIPPED, f"{node.name} refused to {name} ({error})")
    except (Indefinite, TimeoutError) as error:
        why = str(error) or f"not answered within {_ASK_S:g} s"
        return Proof(FaultOutcome.INDETERMINATE, f"{node.name} did not say whether it did {name} ({why})")
    return Proof(FaultOutcome.INSTALLED, f"{name} on {node.name}: {answer}, in {(loop.time() - began_s) * 1e3:.0f} ms")


async def _taken_back(undo: AsksNode, act: Act) -> str:
    """Ask one running node after another, the act's own first, until one has taken the change back."""
    others = [node for node in act.cluster.runtime.nodes.values() if node not in act.nodes]
    refused = []
    for node in (*act.nodes, *others):
        if node.state is not NodeState.RUNNING:
            continue
        try:
            async with asyncio.timeout(_UNDO_S):
                return f"{node.name}: {await undo(node)}"
        except (Definite, Indefinite, TimeoutError) as error:
            refused.append(f"{node.name}: {str(error) or f'not answered within {_UNDO_S:g} s'}")
    raise NotUndone("; ".join(refused) or "no node runs")
