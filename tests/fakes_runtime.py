"""A runtime without processes: nodes and links as plain state, so that the nemesis is tested without a cluster.

`leaks` are links that stay open although they are cut, `unstoppable` nodes that ignore a pause: planted defects that
the proofs must notice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.runtime.node import CLIENT, Effect, Exit, Link, NodeSpec, NodeState, Place, Reach


@dataclass
class FakeNode:
    name: str
    unstoppable: bool = False
    unkillable: bool = False
    unstartable: bool = False
    state: NodeState = NodeState.RUNNING
    incarnation: int = 0
    pid: int | None = 100
    actions: list[str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        folder = Path(self.name)
        return Place(name=self.name, number=1, address="10.77.0.1", folder=folder, data=folder / "data")

    @property
    def spec(self) -> NodeSpec:
        return NodeSpec(name=self.name, argv=("true",), listeners={})

    async def start(self) -> None:
        self.actions.append("start")
        self.state = NodeState.DEAD if self.unstartable else NodeState.RUNNING
        self.incarnation += 1

    async def kill(self) -> None:
        self.actions.append("kill")
        if not self.unkillable:
            self.state = NodeState.DEAD

    def pause(self) -> None:
        self.actions.append("pause")
        self.state = NodeState.PAUSED

    def resume(self) -> None:
        self.actions.append("resume")
        self.state = NodeState.RUNNING

    def thread_states(self) -> dict[int, str]:
        if self.state is NodeState.DEAD:
            return {}
        stopped = self.state is NodeState.PAUSED and not self.unstoppable
        return {1: "T" if stopped else "S", 2: "T" if stopped else "R"}

    def cpu_ns(self) -> int:
        return 0

    @property
    def log(self) -> Path:
        return Path("/dev/null")

    def log_tail(self, lines: int = 20) -> str:
        return ""


class FakeNetwork:
    def __init__(self) -> None:
        self.contributions: dict[int, Mapping[Link, Effect]] = {}
        self.leaks: set[Link] = set()
        self.stuck: set[Link] = set()

    def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        self.contributions[fault_id] = links

    def withdraw(self, fault_id: int) -> None:
        self.contributions.pop(fault_id, None)

    def heal_all(self) -> None:
        self.contributions.clear()

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        return {link: effect for links in self.contributions.values() for link, effect in links.items()}

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        shut = (set(self.blocked) - self.leaks) | self.stuck
        return {link: Reach.DROPPED if link in shut else Reach.OPEN for link in links}


class FakeRuntime:
    def __init__(self, count: int = 3) -> None:
        self.nodes = {f"n{i}": FakeNode(f"n{i}") for i in range(1, count + 1)}
        self.network = FakeNetwork()

    @property
    def layout(self) -> dict[str, Place]:
        return {name: node.place for name, node in self.nodes.items()}

    def realise(self, specs: Iterable[NodeSpec]) -> None:
        raise NotImplementedError

    async def next_exit(self) -> Exit:
        raise NotImplementedError

    async def close(self) -> None:
        self.network.heal_all()

    @property
    def every_link(self) -> list[Link]:
        names = [*self.nodes, CLIENT]
        return [Link(a, b) for a in names for b in names if a != b]
