"""Kills: SIGKILL to the server's process group, then a restart with its data.

A kill keeps the operating system's page cache, so it tests recovery and not durability under power loss.
"""

from collections.abc import Mapping

from fencepost.harness.base.options import seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import NodeState


class Kill(FaultKind):
    name = "kill"
    about = "the server is killed (SIGKILL), then restarted with its data"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = FaultOptions(for_=seconds(2))
    holds = frozenset({"process"})
    any_length = True
    #: Some systems wait for the end of the dead server's session before they start the next one.
    act_deadline_s = 30.0
    for_all = ("kill:one", "kill:leader", "kill:all")
    on_return = ("kill:returned",)

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.CERTAIN)

    async def inject(self, act: Act) -> Proof:
        nodes = act.nodes
        pids = [node.pid for node in nodes]
        for node in nodes:
            await node.kill()
        evidence = {node.name: await node.evidence() for node in nodes}
        left = [f"{name}: {seen.text}" for name, seen in evidence.items() if seen.state is not NodeState.DEAD]
        if left:
            return Proof(FaultOutcome.INDETERMINATE, f"not gone: {'; '.join(left)}")
        return Proof(FaultOutcome.INSTALLED, f"process {', '.join(str(pid) for pid in pids)} gone")

    async def heal(self, act: Act) -> Proof:
        return await started_again(act.nodes)
