"""A loss of power: the servers are killed at once, and every file is put back to its content at its last fsync.

A kill alone keeps the operating system's page cache, so a server that never syncs survives it. Here each server's syncs
are watched for a while (`track=`) before the kill, and afterwards only what was synced is left;
`harness/runtime/disks/sync_mirror.py` says what that means for contents and for names. The proof names the files that
differ, with their hashes before and after. The detail `lost` lists every file that lost something, as "node:path", so
that a run in which nothing was lost can be told apart; without that detail, any of the nodes may have lost something.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Final

from fencepost.harness.base.errors import HarnessError, Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import LastingOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof, Resolved, View
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.history import DiskEffect, Effects, FaultOutcome, Stops
from fencepost.harness.runtime.disks.availability import why_not
from fencepost.harness.runtime.disks.sync_mirror import SyncMirror
from fencepost.harness.runtime.provider import Need, Placement

#: Of an injection that did nothing.
_NOTHING: Final = {"lost": ""}


class PowerLossOptions(LastingOptions, frozen=True, kw_only=True):
    # Attaching, copying and putting back take time as well, within the conductor's limit for one act.
    track: Annotated[Duration, about("how long fsync calls are watched before the kill", most=seconds(4))] = seconds(2)


class PowerLoss(FaultKind):
    name = "power-loss"
    about = "servers are killed and their files put back to the last fsync; then restarted"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    default_target = "all"
    options = PowerLossOptions(for_=seconds(1))
    holds = frozenset({"process", "disk"})
    #: Of all nodes at once not every system promises to survive it; of one, the same for the whole run, each does.
    for_all = ("power-loss:one",)
    needs = frozenset({Need.FILES})

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.CERTAIN, disk=DiskEffect.UNSYNCED)

    def unavailable(self, placement: Placement) -> Refusal | None:
        return why_not(placement)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        return Resolved(nodes=nodes, details={"track_ms": spec.own(PowerLossOptions).track // 10**6})

    async def inject(self, act: Act) -> Proof:
        nodes, mirrors = act.nodes, list[SyncMirror]()
        for node in nodes:
            if node.pid is None:
                return Proof(FaultOutcome.INDETERMINATE, f"nothing was done: {node.name} was not running", _NOTHING)
            mirrors.append(mirror := SyncMirror(node.pid, node.place.data))
            act.undo(mirror.close)
        await asyncio.gather(*(mirror.begin() for mirror in mirrors))
        await asyncio.sleep(act.options(PowerLossOptions).track / 1e9)
        unsure = [f"{node.name}: {why}" for node, m in zip(nodes, mirrors, strict=True) if (why := m.why_not_whole())]
        if unsure:
            return Proof(FaultOutcome.INDETERMINATE, f"no server was killed: {'; '.join(unsure)}", _NOTHING)
        await asyncio.gather(*(node.kill() for node in nodes))
        texts, wrong = [], []
        for node, mirror in zip(nodes, mirrors, strict=True):
            try:
                texts.append(f"{node.name}: {await mirror.restore()}")
            except HarnessError as error:
                wrong.append(f"{node.name}: {error.message}")
        text = "; ".join([*wrong, *texts])
        if wrong:
            return Proof(FaultOutcome.INDETERMINATE, text)
        lost = ", ".join(f"{n.name}:{path}" for n, mirror in zip(nodes, mirrors, strict=True) for path in mirror.lost)
        return Proof(FaultOutcome.INSTALLED, text, {"lost": lost})

    async def heal(self, act: Act) -> Proof:
        return await started_again(act.nodes)
