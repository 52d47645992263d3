"""What a system asks of a runtime (data), and what a runtime gives (a node that can be started, stopped and asked).

A system is asked for `NodeSpec`s, not for processes. The runtime realises them: a process group in a network
namespace (lab), later a container. Faults act on `Node` and `Network` only, by name; they never see an address.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

#: The harness's own side of a link: all clients and observers.
CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node lives: its name, its address, its folder for configuration and logs, its data directory."""

    name: str
    number: int
    address: str
    folder: Path
    data: Path


#: All nodes of a cluster by name, in order: what a system needs to write configurations.
Layout = Mapping[str, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """One server as data. `files` are written before every start, paths relative to the node's folder.

    `data_files` likewise, relative to the data directory, but only before the first start. `ready_timeout_s` bounds the
    wait for the system's own readiness condition. `data_limit_bytes` is a hard size limit of the data directory.
    """

    name: str
    argv: tuple[str, ...]
    listeners: Mapping[str, int]
    roles: tuple[str, ...] = ("member",)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    data_files: Mapping[str, str] = field(default_factory=dict)
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


class Node(Protocol):
    """One server, wherever it lives. All calls return quickly; what must be waited for is a coroutine."""

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
    def pid(self) -> int | None: ...

    async def start(self) -> None:
        """Start the process (again, with the data kept). Does not wait for readiness."""
        ...

    async def kill(self) -> None:
        """SIGKILL the whole process group and wait until it is gone (also when it is paused). Idempotent."""
        ...

    def pause(self) -> None:
        """Stop every thread of the process group (SIGSTOP). Idempotent."""
        ...

    def resume(self) -> None:
        """Let it run again. Idempotent."""
        ...

    def thread_states(self) -> dict[int, str]:
        """State letter of every thread of every process of the node ("R", "S", "T", ...); empty when none is left."""
        ...

    def cpu_ns(self) -> int:
        """Processor time of the node's process so far; 0 when it is gone."""
        ...

    @property
    def log(self) -> Path:
        """The file that the server's stdout and stderr go to, appended over all starts."""
        ...

    def log_tail(self, lines: int = 20) -> str: ...


class Link(NamedTuple):
    """A directed link. `source` and `target` are node names, or `CLIENT` for the harness's side."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"


class Effect(StrEnum):
    """What happens to the packets of a link, weakest last; merged, the stronger one wins."""

    DROP = "drop"
    RESET = "reset"


class Reach(StrEnum):
    """What a probe of one directed link found."""

    OPEN = "open"
    DROPPED = "dropped"
    RESET = "reset"


class Network(Protocol):
    """Who can talk to whom: a set of contributions keyed by the fault that made them, merged, applied as one."""

    def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        """Set this fault's contribution and enforce the merged state in one transaction."""
        ...

    def withdraw(self, fault_id: int) -> None:
        """Take this fault's contribution back. Idempotent."""
        ...

    def heal_all(self) -> None:
        """Withdraw everything. Idempotent."""
        ...

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        """The merged state in force."""
        ...

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        """Send one datagram over each directed link (independent of the servers) and say what became of it."""
        ...


class Runtime(Protocol):
    """A place where a cluster lives, for the length of one run."""

    @property
    def nodes(self) -> Mapping[str, Node]: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def network(self) -> Network: ...

    def realise(self, specs: Iterable[NodeSpec]) -> None:
        """Give every place its spec: write files, mount data directories. Once, before the first start."""
        ...

    async def next_exit(self) -> Exit:
        """Wait for the next server process that ends, whoever ended it."""
        ...

    async def close(self) -> None:
        """Kill every server, undo every rule and mount, in reverse order. Idempotent."""
        ...
