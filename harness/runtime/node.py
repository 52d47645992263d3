"""What a system asks of a runtime (data), and what a runtime gives (a node that can be started, stopped and asked).

A system is asked for `NodeSpec`s, not for processes. The runtime realises them: a process group in a network
namespace (lab) or a container. Faults act on `Node` and `Network` only, by name; they never see an address.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

#: The harness's own side of a link: all clients and observers.
CLIENT = "client"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What happens to packets that pass a link; zero means nothing of that kind. Shares lie between 0 and 1.

    Each packet is late by `delay_ns` and up to `jitter_ns` more or less, but keeps its place. The share `reorder` is
    held back for `reorder_by_ns` more, so that later ones overtake it. `rate_bytes_s` counts whole IP packets.
    """

    delay_ns: int = 0
    jitter_ns: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_by_ns: int = 0
    rate_bytes_s: int = 0
    #: Of the draws that say which packets are lost, late, ...
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What numbered datagrams of our own experienced over one directed link, by the one clock of this machine.

    `arrived` counts different ones, `doubled` those that came twice, `overtaken` those that came after a later one. The
    one-way times are those of the others; None when not one arrived. `rate_bytes_s` is that of IP packets arriving.
    """

    sent: int
    arrived: int
    doubled: int
    overtaken: int
    least_ms: float | None
    median_ms: float | None
    most_ms: float | None
    rate_bytes_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """Packets of a link since it is shaped: all, lost on purpose, doubled, overtaken, lost since the line was full."""

    seen: int = 0
    lost: int = 0
    doubled: int = 0
    overtaken: int = 0
    crowded_out: int = 0


class Witness(Protocol):
    """Connections of our own, idle, one over each pair of ends: what becomes of connections that are open already."""

    async def ended(self, timeout_s: float) -> Mapping[frozenset[str], bool]:
        """By pair of ends: whether both ends saw an error (a reset, not a proper end) within the time."""
        ...

    def close(self) -> None: ...


class Shapes(Protocol):
    """Links that are slow, lossy or disordered: contributions keyed by the fault, merged. A cut link passes nothing."""

    async def prepare(self) -> None:
        """Have everything at hand that `apply` needs. Idempotent."""
        ...

    async def apply(self, fault_id: int, links: Mapping[Link, Shape]) -> None:
        """Set this fault's contribution and enforce the merged state."""
        ...

    async def withdraw(self, fault_id: int) -> None:
        """Take this fault's contribution back; packets that are held for it go on at once. Idempotent."""
        ...

    @property
    def in_force(self) -> Mapping[Link, Shape]:
        """The merged state."""
        ...

    async def read_back(self) -> frozenset[Link]:
        """The links whose packets the kernel hands over, as it tells it."""
        ...

    async def handled(self) -> Mapping[Link, Handled]:
        """Counters of the shaped links."""
        ...

    async def measure(self, links: Mapping[Link, Shape], count: int = 0) -> Mapping[Link, Passage]:
        """Send as many datagrams of our own over each link as it takes to feel that shape, or `count`."""
        ...

    async def open_witness(self, links: Iterable[Link]) -> Witness: ...

    async def break_connections(self, links: Iterable[Link]) -> int:
        """Reset every TCP connection that is open between the ends of these links; how many.

        Raises OSError where the kernel cannot: then each ends at the next packet over a link with `Effect.RESET`.
        """
        ...


class Network(Protocol):
    """Who can talk to whom: a set of contributions keyed by the fault that made them, merged, applied as one."""

    @property
    def shapes(self) -> Shapes | None:
        """None where links can be cut only."""
        ...

    async def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        """Set this fault's contribution and enforce the merged state, in one transaction where the runtime has one."""
        ...

    async def withdraw(self, fault_id: int) -> None:
        """Take this fault's contribution back. Idempotent."""
        ...

    async def heal_all(self) -> None:
        """Withdraw everything, shapes and toxics included. Idempotent."""
        ...

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        """The merged state in force."""
        ...

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        """Send something of our own over each directed link (independent of the servers), say what became of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """What happens to the bytes of a stream: Toxiproxy's kind ("latency", ...) and its attributes by their names."""

    kind: str
    attributes: Mapping[str, int] = field(default_factory=dict)
    toxicity: float = 1.0


class Ending(StrEnum):
    """How a connection of our own ended: all came, closed or reset before that, or nothing more until the deadline."""

    COMPLETE = "complete"
    CLOSED = "closed early"
    RESET = "reset"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What one connection of our own over a link experienced: some round trips, then many bytes in one go.

    `byte_count` and `pieces` (as they were read) are those of the whole connection, `rate_kb_s` that of the many bytes.
    `closing_ms` is from the last byte to the end of the connection, `ended_ms` from its beginning to its end.
    """

    ending: Ending
    round_trips_ms: tuple[float, ...] = ()
    byte_count: int = 0
    pieces: int = 0
    rate_kb_s: float = 0.0
    closing_ms: float = 0.0
    ended_ms: float = 0.0

    @property
    def round_trip_ms(self) -> float | None:
        """The shortest; None when not one came back."""
        return min(self.round_trips_ms, default=None)

    def __str__(self) -> str:
        trips = self.round_trips_ms
        words = [f"round trip {min(trips):.1f} to {max(trips):.1f} ms"] if trips else []
        if self.byte_count:
            words.append(f"{self.byte_count} bytes in {self.pieces} pieces at {self.rate_kb_s:.4g} kB/s")
        return ", ".join([*words, f"{self.ending} after {self.ended_ms:.0f} ms"])


class Streams(Protocol):
    """Faults above the packet level, on links whose connections go through a proxy (`--links toxiproxy`)."""

    async def apply(self, fault_id: int, links: Mapping[Link, Toxic]) -> None:
        """Set this fault's toxics on the bytes that flow along each directed link, and read them back."""
        ...

    async def withdraw(self, fault_id: int) -> None:
        """Remove this fault's toxics. Idempotent."""
        ...

    async def read_back(self) -> Mapping[Link, tuple[Toxic, ...]]:
        """The toxics in force on each link, as the proxy tells them."""
        ...

    async def measure(self, links: Iterable[Link], timeout_s: float = 5.0) -> Mapping[Link, Experience]:
        """What a new connection of our own over each link experiences now; for the proof."""
        ...


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
