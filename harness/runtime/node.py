"""What a system asks of a runtime (data), and what a runtime gives (a node that can be started, stopped and asked).

A system is asked for `NodeSpec`s, not for processes. The runtime realises them: a process group in a network
namespace (lab) or a container. Faults act on `Node` and `Network` only, by name; they never see an address.
"""

import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from fencepost.harness.runtime.network import CLIENT, Network, Streams


@dataclass(frozen=True, slots=True)
class Member:
    """A node of a cluster by what it is there for: its roles ("controller", "broker", ...), and whether it votes.

    The harness dials its listeners `dialled`; other nodes dial every listener but "client".
    """

    name: str
    roles: tuple[str, ...] = ("member",)
    votes: bool = True
    dialled: tuple[str, ...] = (CLIENT,)


def members_alike(count: int) -> tuple[Member, ...]:
    """n1, n2, ...: nodes that are all the same."""
    return tuple(Member(f"n{number}") for number in range(1, count + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node lives, and by which names it is reached.

    `address` is what its server listens on; `folder` (configuration) and `data` are paths as the server sees them,
    which is inside a container for one. `kept` is on this machine: logs, configurations and copies of data for people.

    Other nodes dial `peer(port)` and the harness dials `dial(port)`: they differ from (address, port) where a link goes
    through a proxy or a published port. `peer` is the same text on every node, as etcd's member ids demand.
    """

    name: str
    number: int
    address: str
    folder: Path
    data: Path
    kept: Path
    host: str = ""
    port_shift: int = 0
    roles: tuple[str, ...] = ("member",)
    endpoints: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def peer(self, port: int) -> tuple[str, int]:
        """Host and port at which other nodes reach the listener `port`; the server must listen on this port."""
        return self.host or self.address, port + self.port_shift

    def dial(self, port: int) -> tuple[str, int]:
        """Host and port at which the harness reaches the listener `port`, one of those that it dials."""
        return self.endpoints.get(port, (self.address, port))


#: All nodes of a cluster by name, in order: what a system needs to write configurations.
Layout = Mapping[str, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One server as data. `files` are written before every start, paths relative to the node's folder.

    `data_files` likewise, relative to the data directory, but only before the first start and the first one after
    `Node.wipe`. `ready_timeout_s` bounds the wait for the system's own readiness condition. `data_limit_bytes` is a
    hard size limit of the data directory.
    """

    name: str
    argv: tuple[str, ...]
    listeners: Mapping[str, int]
    roles: tuple[str, ...] = ("member",)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    data_files: Mapping[str, str | bytes] = field(default_factory=dict)
    #: In place of the cluster's own, where servers live in containers.
    image: str = ""
    data_limit_bytes: int = 256 << 20
    ready_timeout_s: float = 20.0


class NodeState(StrEnum):
    """Of the server's process: before the first start, running, stopped by the freezer, gone."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Exit:
    """A server process ended. `expected` when the harness killed it."""

    node: str
    incarnation: int
    exit_status: int
    expected: bool

    def __str__(self) -> str:
        """ "n1 ended by itself with exit status 2"."""
        if self.exit_status >= 0:
            return f"{self.node} ended by itself with exit status {self.exit_status}"
        number = -self.exit_status
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        by_kernel = " (out of memory?)" if number == signal.SIGKILL else ""
        return f"{self.node} was ended by {name}, not by the harness{by_kernel}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was measured of a node's process now, not remembered: its state, and the words for a proof."""

    state: NodeState
    text: str


class Node(Protocol):
    """One server, wherever it lives. What may have to be waited for is a coroutine.

    `wrap_argv` functions are applied to the command in order at every start, `on_start` functions are called with the
    node right after every start: through them a fault wraps a command or arms a process. What they give back is awaited
    before the start is over.
    """

    wrap_argv: list[Callable[[tuple[str, ...]], Sequence[str]]]
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
        """Starts so far, less one: 0 for the first process; -1 before it."""
        ...

    @property
    def pid(self) -> int | None:
        """Of the server's first process as this machine numbers it; None when it is gone or runs on another machine."""
        ...

    @property
    def last_exit(self) -> Exit | None:
        """How its latest process that ended did so; None before any has ended."""
        ...

    async def start(self) -> None:
        """Start the process (again, with the data kept). Does not wait for readiness."""
        ...

    def respec(self, spec: NodeSpec) -> None:
        """Take this command, environment and files from the next start on. Where it lives and listens stays."""
        ...

    async def wipe(self) -> None:
        """Let the next start find an empty data directory, filled as at the first one.

        Raises HarnessError while the server runs.
        """
        ...

    async def stop(self, timeout_s: float) -> bool:
        """Ask the server to end in its own order (SIGTERM), wait until it is gone, kill what is left then. Idempotent.

        Whether it ended by itself within the time. One that is paused is killed, and does not run again.
        """
        ...

    async def kill(self) -> None:
        """SIGKILL all its processes and wait until they are gone (also when it is paused). Idempotent."""
        ...

    async def pause(self) -> None:
        """Stop every thread of every process (SIGSTOP, or the freezer). Idempotent."""
        ...

    async def resume(self) -> None:
        """Let it run again. Idempotent."""
        ...

    async def evidence(self) -> Evidence:
        """Look at the processes now. PAUSED only when no thread can run, DEAD only when none is left."""
        ...

    def cpu_ns(self) -> int:
        """Processor time of the node's process so far; 0 when it is gone or cannot be read from here."""
        ...

    @property
    def log(self) -> Path:
        """The file on this machine that the server's stdout and stderr go to, appended over all starts."""
        ...

    def log_tail(self, lines: int = 20) -> str: ...


def death_of(node: Node) -> Exit | None:
    """How the server of this node ended, where nobody of ours ended it; None while it runs or was ended by us."""
    exit_ = node.last_exit
    of_this_process = exit_ is not None and exit_.incarnation == node.incarnation and not exit_.expected
    return exit_ if of_this_process and node.state is NodeState.DEAD else None


class Runtime(Protocol):
    """A place where a cluster lives, for the length of one run."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def network(self) -> Network: ...
    @property
    def streams(self) -> Streams | None:
        """None where links are enforced by packet rules."""
        ...

    async def realise(self, specs: Iterable[NodeSpec]) -> None:
        """Give every place its spec: write files, mount data directories. Once, before the first start."""
        ...

    async def await_links(self, timeout_s: float = 5.0) -> None:
        """Probe until every directed link has been found open; once all nodes run for the first time.

        Raises HarnessError that names the links which stay shut.
        """
        ...

    async def next_exit(self) -> Exit:
        """Wait for the next server process that ends, whoever ended it.

        Raises HarnessError when the place itself is gone (an engine that stopped), so that the run ends early.
        """
        ...

    async def copy_data(self, node_name: str, target: Path) -> None:
        """Write the data directory of a node that is stopped as a tar.gz to `target`, one folder `node_name` in it."""
        ...

    async def close(self) -> None:
        """Kill every server, undo every rule and mount, in reverse order. Idempotent."""
        ...
