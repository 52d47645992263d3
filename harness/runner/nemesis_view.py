"""The cluster as the nemesis gets it: what faults act on, and what they see when they act."""

from collections.abc import Callable, Mapping

from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.faults.kind import Cluster, View
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.runner.faults import Workers, changes_members
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.servers import Servers
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import NodeState


def cluster_of(
    servers: Servers,
    observers: Observers,
    *,
    workers: Workers,
    others: Mapping[str, Artifacts],
    hurried: Callable[[], bool],
    freezer: Freezer | None = None,
    interpreter: Interpreter | None = None,
) -> Cluster:
    """Return what the nemesis acts on.

    Args:
        workers: the faults that the plan names; servers are started so that these are possible.
        others: the releases that faults start nodes as, by the word of the plan.
        hurried: whether the run is to end early.
        freezer, interpreter: None where the harness has no clients of its own.
    """
    checked = servers.checked
    retired: set[str] = set()

    def absent(name: str) -> bool:
        """Whether this node is not part of the cluster: it has not joined yet, or was ended for good."""
        return name in retired or servers.runtime.nodes[name].state is NodeState.NEW

    def view() -> View:
        leader, epoch = observers.leader()
        connected = freezer.connected if freezer else ()
        busy = interpreter.busy if interpreter else ()
        return View(
            nodes=tuple(name for name in servers.runtime.nodes if not absent(name)),
            leader=leader,
            epoch=epoch,
            members=tuple(member for member in checked.members if not absent(member.name)),
            leader_names=checked.system.profile.leader_names,
            other_leaders={subject: observers.leader_of(subject) for subject in checked.system.profile.other_leaders},
            bound_ns=servers.bound_ns,
            unready=frozenset(servers.unready),
            restarted=servers.restarted,
            seed=checked.plan.seed,
            clients=len(freezer.gates) if freezer else 0,
            busy_clients=tuple(worker for worker in busy if worker in connected) or connected,
        )

    return Cluster(
        runtime=servers.runtime,
        system=checked.system,
        artifacts=servers.artifacts,
        options=checked.system_options,
        settings=checked.plan.settings,
        changes_members=changes_members(workers),
        records=servers.recorder,
        view=view,
        folder=servers.folder,
        others=others,
        hurried=hurried,
        retired=retired,
        clients=freezer,
    )
