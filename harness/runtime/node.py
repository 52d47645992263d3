"""What a system wants from a runtime (data), and what the runtime provides: nodes that can be started and stopped.

A system returns `NodeSpec`s, not processes. The runtime realises them as a process group in a network namespace (lab)
or as a container. Faults act only on `Node` and `Network`, by name; they never see an address.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from fencepost.harness.base.errors import own_end
from fencepost.harness.runtime.network import CLIENT, Network, Streams


@dataclass(frozen=True, slots=True)
class Member:
    """A node's part in the cluster: its roles, whether it votes, and whether it serves clients.

    The harness dials its listeners `dialled`; other nodes dial every listener except "client". A node that
    `joins_later` is not started with the cluster; a fault starts it.
    """

    name: str
    roles: tuple[str, ...] = ("member",)
    votes: bool = True
    serves: bool = True
    dialled: tuple[str, ...] = (CLIENT,)
    joins_later: bool = False


def electorates(members: Iterable[Member]) -> tuple[tuple[str, ...], ...]:
    """Divide the members that vote by their first role: each such group elects for itself."""
    groups: dict[str, list[str]] = {}
    for member in members:
        if member.votes:
            groups.setdefault(member.roles[0], []).append(member.name)
    return tuple(map(tuple, groups.values()))


def members_alike(count: int) -> tuple[Member, ...]:
    """Return n1, n2, ...: nodes that are all the same."""
    return tuple(Member(f"n{number}") for number in range(1, count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node lives, and how it is reached.

    Its server listens on `address`. `folder` (configuration) and `data` are paths as the server sees them, for example
    inside a container. `kept` is on this machine: logs, configurations and copies of data for people.

    Other nodes dial `peer(port)` and the harness dials `dial(port)`. They differ from (address, port) where a link goes
    through a proxy or a published port. `peer` is the same text on every node, as etcd's member ids require.
    """

    name: str
    number: int
    address: str
    folder: Path
    data: Path
    kept: Path
    roles: tuple[str, ...] = ("member",)
    endpoints: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def peer(self, port: int) -> tuple[str, int]:
        """Return host and port at which other nodes reach the listener `port`; the server must listen on that port."""
        return self.address, port

    def dial(self, port: int) -> tuple[str, int]:
        """Return host and port at which the harness reaches the listener `port`, one of those that it dials."""
        return self.endpoints.get(port, (self.address, port))


#: All nodes of a cluster by name, in order: what a system needs to write configurations.
Layout = Mapping[str, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One server as data.

    `files` are written before every start; their paths are relative to the node's folder. `data_files` are relative to
    the data directory, and written only before the first start and the first one after `Node.wipe`. `ready_timeout_s`
    limits the wait for the system's readiness condition. `data_limit_bytes` is a hard limit of the data directory.
    """

    name: str
    argv: tuple[str, ...]
    listeners: Mapping[str, int]
    roles: tuple[str, ...] = ("member",)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    data_files: Mapping[str, str | bytes] = field(default_factory=dict)
    #: The image to use instead of the cluster's own, where servers live in containers.
    image: str = ""
    data_limit_bytes: int = 256 << 20
    ready_timeout_s: float = 20.0


class NodeState(StrEnum):
    """The state of the server's process: before the first start, running, stopped, or gone."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a server process. `expected`: the harness ended it."""

    node: str
    incarnation: int
    exit_status: int
    expected: bool

    def __str__(self) -> str:
        return own_end(self.node, self.exit_status)


@dataclass(frozen=True, slots=True)
class ProcessEvidence:
    """The state of a node's process as measured now, not remembered, with the text for a proof."""

    state: NodeState
    text: str


class Node(Protocol):
    """One server, wherever it lives. Methods that may wait are coroutines.

    At every start the functions of `before_start` are awaited first, then those of `wrap_argv` are applied to the
    command in order, and right afterwards those of `on_start` are called with the node. A system uses the first ones
    to wait until a server can start, faults the others to wrap a command or to prepare a process. What an `on_start`
    function returns is awaited before the start is over.
    """

    wrap_argv: list[Callable[[tuple[str, ...]], Sequence[str]]]
    before_start: "list[Callable[[Node], Awaitable[None]]]"
    on_start: "list[Callable[[Node], Awaitable[None] | None]]"

    @property
    def name(self) -> str: ...
    @property
    def place(self) -> Place: ...
    @property
    def spec(self) -> NodeSpec: ...
    @property
    def state(self) -> NodeState: ...
    @property
    def incarnation(self) -> int:
        """The number of starts so far, minus one: 0 for the first process, -1 before it."""
        ...

    @property
    def pid(self) -> int | None:
        """The server's first process as this machine numbers it; None when it is gone or runs on another machine."""
        ...

    @property
    def last_exit(self) -> Exit | None:
        """How the node's latest ended process ended; None before any has."""
        ...

    async def start(self) -> None:
        """Start the process, with the data that is there. Does not wait for readiness."""
        ...

    def respec(self, spec: NodeSpec) -> None:
        """Use this command, environment and files from the next start on. Address and listeners stay."""
        ...

    async def wipe(self) -> None:
        """Empty the data directory, so that the next start fills it as the first one did.

        Raises HarnessError while the server runs.
        """
        ...

    async def stop(self, timeout_s: float) -> bool:
        """Ask the server to end (SIGTERM), wait until it is gone, then kill what is left. Idempotent.

        Returns:
            Whether it ended by itself in time. A paused server is killed, and does not run again.
        """
        ...

    async def kill(self) -> None:
        """Kill all its processes (SIGKILL), paused or not, and wait until they are gone. Idempotent."""
        ...

    async def pause(self) -> None:
        """Stop every thread of every process (SIGSTOP, or the freezer). Idempotent."""
        ...

    async def resume(self) -> None:
        """Let it run again. Idempotent."""
        ...

    async def evidence(self) -> ProcessEvidence:
        """Look at the processes now: PAUSED means that no thread can run, DEAD that no process is left."""
        ...

    def cpu_ns(self) -> int:
        """Return the processor time of the node's process so far; 0 when it is gone or cannot be read from here."""
        ...

    @property
    def log(self) -> Path:
        """The file on this machine to which stdout and stderr of every start are appended."""
        ...

    def log_tail(self, lines: int = 20) -> str: ...


def death_of(node: Node) -> Exit | None:
    """Return how this node's server ended by itself; None while it runs, or when the harness ended it."""
    exit_ = node.last_exit
    of_this_process = exit_ is not None and exit_.incarnation == node.incarnation and not exit_.expected
    return exit_ if of_this_process and node.state is NodeState.DEAD else None


class Runtime(Protocol):
    """Where a cluster lives for the length of one run."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def network(self) -> Network: ...
    @property
    def streams(self) -> Streams | None:
        """The proxy's streams; None where links are enforced by packet rules."""
        ...

    async def realise(self, specs: Iterable[NodeSpec]) -> None:
        """Prepare every node for its spec: write files, mount data directories. Called once, before the first start."""
        ...

    async def await_links(self, timeout_s: float = 5.0) -> None:
        """Probe until every directed link is open. Called when all nodes run for the first time.

        Raises HarnessError that names the links that stay closed.
        """
        ...

    async def next_exit(self) -> Exit:
        """Wait for the next end of a server process, whatever its cause.

        Raises HarnessError when the runtime itself is gone (a stopped engine), so that the run ends early.
        """
        ...

    async def copy_data(self, node_name: str, target: Path) -> None:
        """Write a stopped node's data directory to `target`, a tar.gz with one folder `node_name`."""
        ...

    async def close(self) -> None:
        """Kill every server, undo every rule and mount, in reverse order. Idempotent."""
        ...
