"""A runtime without processes: nodes and links as plain state, so that the nemesis is tested without a cluster.

`leaks` are links that stay open although they are cut, `unstoppable` nodes that ignore a pause: planted defects that
the proofs must notice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fencepost.harness.faults.kind import Cluster, FreezableClients, View
from fencepost.harness.history import Event
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.links.rules_in_force import Enforcer
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach, Streams
from fencepost.harness.runtime.node import Exit, Node, NodeSpec, NodeState, Place, ProcessEvidence

E = TypeVar("E", bound=Event)


@dataclass
class FakeNode:
    name: str
    unstoppable: bool = False
    unkillable: bool = False
    unstartable: bool = False
    state: NodeState = NodeState.RUNNING
    incarnation: int = 0
    pid: int | None = 100
    last_exit: Exit | None = None
    actions: list[str] = field(default_factory=list)
    given: NodeSpec | None = None
    kept_log: Path = Path("/dev/null")
    wrap_argv: list[Callable[[tuple[str, ...]], Sequence[str]]] = field(default_factory=list)
    before_start: list[Callable[[Node], Awaitable[None]]] = field(default_factory=list)
    on_start: list[Callable[[Node], Awaitable[None] | None]] = field(default_factory=list)

    @property
    def place(self) -> Place:
        folder = Path(self.name)
        return Place(name=self.name, number=1, address="10.77.0.1", folder=folder, data=folder / "data", kept=folder)

    @property
    def spec(self) -> NodeSpec:
        return self.given or NodeSpec(name=self.name, argv=("true",), listeners={})

    def respec(self, spec: NodeSpec) -> None:
        self.given = spec

    async def wipe(self) -> None:
        self.actions.append("wipe")

    async def start(self) -> None:
        self.actions.append("start")
        self.state = NodeState.DEAD if self.unstartable else NodeState.RUNNING
        self.incarnation += 1

    async def stop(self, timeout_s: float) -> bool:
        self.actions.append("stop")
        if not self.unkillable:
            self.state = NodeState.DEAD
        return not self.unstoppable

    async def kill(self) -> None:
        self.actions.append("kill")
        if not self.unkillable:
            self.state = NodeState.DEAD

    async def pause(self) -> None:
        self.actions.append("pause")
        self.state = NodeState.PAUSED

    async def resume(self) -> None:
        self.actions.append("resume")
        self.state = NodeState.RUNNING

    async def evidence(self) -> ProcessEvidence:
        if self.state is NodeState.PAUSED and self.unstoppable:
            return ProcessEvidence(NodeState.RUNNING, "0 of 2 threads stopped")
        return ProcessEvidence(
            self.state, "2 of 2 threads stopped" if self.state is NodeState.PAUSED else str(self.state)
        )

    def cpu_ns(self) -> int:
        return 0

    @property
    def log(self) -> Path:
        return self.kept_log

    def log_tail(self, lines: int = 20) -> str:
        return ""


class FakeNetwork(Enforcer):
    def __init__(self, ends: Iterable[str]) -> None:
        super().__init__(ends)
        self.leaks: set[Link] = set()
        self.stuck: set[Link] = set()

    async def _set(self, wanted: Mapping[Link, Effect], before: Mapping[Link, Effect] | None) -> None:
        """Nothing enforces links: they are what `probe` says."""

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        shut = (set(self.blocked) - self.leaks) | self.stuck
        reset = {link for link, effect in self.blocked.items() if effect is Effect.RESET}
        met = {link: Reach.RESET if link in reset else Reach.DROPPED for link in shut}
        return {link: met.get(link, Reach.OPEN) for link in links}


class FakeRuntime:
    def __init__(self, count: int = 3) -> None:
        self.nodes = {f"n{i}": FakeNode(f"n{i}") for i in range(1, count + 1)}
        self.network = FakeNetwork([*self.nodes, CLIENT])
        self.streams: Streams | None = None

    @property
    def layout(self) -> dict[str, Place]:
        return {name: node.place for name, node in self.nodes.items()}

    async def realise(self, specs: Iterable[NodeSpec]) -> None:
        raise NotImplementedError

    async def await_links(self, timeout_s: float = 5.0) -> None:
        raise NotImplementedError

    async def copy_data(self, node_name: str, target: Path) -> None:
        raise NotImplementedError

    async def next_exit(self) -> Exit:
        raise NotImplementedError

    async def close(self) -> None:
        await self.network.heal_all()

    @property
    def every_link(self) -> list[Link]:
        names = [*self.nodes, CLIENT]
        return [Link(a, b) for a in names for b in names if a != b]


class KeptRecords:
    """The recorder's part that the nemesis needs, on the loop's clock: `events` holds what was recorded."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def now_ns(self) -> int:
        return int(asyncio.get_running_loop().time() * 1e9)

    def record(self, cls: type[E], **fields: Any) -> E:
        event = cls(index=len(self.events), time_ns=self.now_ns(), **fields)
        self.events.append(event)
        return event


def cluster_of(
    runtime: Any,
    *,
    records: KeptRecords | None = None,
    view: Callable[[], View] | None = None,
    folder: Path = Path("run"),
    system: str = "etcd",
    clients: FreezableClients | None = None,
) -> Cluster:
    """What a fault acts on, around a runtime (or that part of one that a test is about)."""
    return Cluster(
        runtime=runtime,
        system=registry.system(system),
        artifacts=Artifacts(version="", paths={}, sha256={}),
        options=registry.system(system).profile.options(),
        records=records or KeptRecords(),
        view=view or (lambda: View(nodes=tuple(runtime.nodes), leader=None, epoch=None)),
        folder=folder,
        clients=clients,
    )
