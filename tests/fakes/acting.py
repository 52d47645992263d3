"""Injects and heals one fault without the conductor, and as it does: the act is kept from the one to the other."""

import random
from weakref import WeakKeyDictionary

from fencepost.harness.faults.kind import Act, Cluster, FaultKind, FaultSpec, Proof, Resolved, View

ACTS: WeakKeyDictionary[FaultKind, dict[int, Act]] = WeakKeyDictionary()


def aimed(fault: FaultKind, spec: FaultSpec, view: View, draw: random.Random) -> Resolved:
    resolved = fault.choose(spec, view, draw)
    assert isinstance(resolved, Resolved)
    return resolved


def act_of(fault: FaultKind, fault_id: int, resolved: Resolved, cluster: Cluster) -> Act:
    """The act of this number: the same one until it is injected again."""
    acts = ACTS.setdefault(fault, {})
    return acts.setdefault(fault_id, Act(fault_id=fault_id, resolved=resolved, cluster=cluster))


async def inject(fault: FaultKind, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
    ACTS.setdefault(fault, {}).pop(fault_id, None)
    return await fault.inject(act_of(fault, fault_id, resolved, cluster))


async def heal(fault: FaultKind, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
    act = act_of(fault, fault_id, resolved, cluster)
    act.cluster = cluster
    return await act.healed(fault.heal)
