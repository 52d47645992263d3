"""Who can talk to whom, and how well: links, what is done to them, and what probes show. Values and protocols only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

#: The harness's own side of a link: all clients and observers.
CLIENT = "client"


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
