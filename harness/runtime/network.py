"""Links: what they are, what faults do to them, and what probes show. Values and protocols only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

#: The harness's end of a link: all clients and observers.
CLIENT = "client"


class Link(NamedTuple):
    """A directed link. `source` and `target` are node names, or `CLIENT` for the harness."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}>{self.target}"


class Effect(StrEnum):
    """What happens to the packets of a blocked link. Where two faults block it, the stronger (first) effect holds."""

    DROP = "drop"
    RESET = "reset"


class Reach(StrEnum):
    """The result of probing one directed link."""

    OPEN = "open"
    DROPPED = "dropped"
    RESET = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketShape:
    """What happens to the packets of an open link. Zero means that this does not happen; shares lie between 0 and 1.

    Each packet is late by `delay_ns`, plus or minus up to `jitter_ns`, but keeps its place. The share `reorder` of the
    packets is held `reorder_by_ns` longer, so that later ones overtake them. `rate_bytes_s` counts whole IP packets.
    """

    delay_ns: int = 0
    jitter_ns: int = 0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_by_ns: int = 0
    rate_bytes_s: int = 0
    #: The seed of the draws: which packets are lost, late, ...
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What happened to numbered datagrams of ours on one directed link, measured by the one clock of this machine.

    `arrived` counts distinct datagrams, `doubled` those that came twice, `overtaken` those that came after a later one.
    The one-way times are those of datagrams that were not overtaken; None when none arrived. `rate_bytes_s` is the rate
    of the arriving IP packets.
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
    """Counters of a shaped link: all packets, those lost on purpose, doubled, overtaken, and lost on a full line."""

    seen: int = 0
    lost: int = 0
    doubled: int = 0
    overtaken: int = 0
    crowded_out: int = 0


class PairedConnections(Protocol):
    """Idle connections of ours, one for each pair of ends. They show what happens to connections that are open."""

    async def ended(self, timeout_s: float) -> Mapping[frozenset[str], bool]:
        """Return, by pair of ends, whether both ends saw an error (a reset, not a normal end) in time."""
        ...

    async def close(self) -> None: ...


class Shapes(Protocol):
    """Links that are slow, lossy or disordered, by fault; several faults add up. A cut link carries nothing."""

    async def prepare(self) -> None:
        """Prepare everything that `apply` needs. Idempotent."""
        ...

    async def apply(self, fault_id: int, links: Mapping[Link, PacketShape]) -> None:
        """Set this fault's contribution and enforce the merged state."""
        ...

    async def withdraw(self, fault_id: int) -> None:
        """Remove this fault's contribution; packets held for it go on at once. Idempotent."""
        ...

    @property
    def in_force(self) -> Mapping[Link, PacketShape]:
        """The merged state."""
        ...

    async def read_back(self) -> frozenset[Link]:
        """Return the links whose packets the kernel hands over, as the kernel lists them."""
        ...

    async def handled(self) -> Mapping[Link, Handled]:
        """Return the counters of the shaped links."""
        ...

    async def measure(self, links: Mapping[Link, PacketShape], count: int = 0) -> Mapping[Link, Passage]:
        """Send datagrams over each link: as many as it takes to show that shape, or `count`."""
        ...

    async def open_witness(self, links: Iterable[Link]) -> PairedConnections: ...

    async def heal_all(self) -> None:
        """Stop shaping every link, whatever seems to be in force. Idempotent."""
        ...

    async def break_connections(self, links: Iterable[Link]) -> int:
        """Reset every open TCP connection between the ends of these links; return how many.

        Raises OSError or HarnessError where the kernel cannot. Each connection then ends at its next packet over a link
        with `Effect.RESET`.
        """
        ...


class Network(Protocol):
    """Which links are blocked: the contributions of all faults, merged and enforced together."""

    @property
    def shapes(self) -> Shapes | None:
        """None where links can only be cut."""
        ...

    async def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        """Set this fault's contribution and enforce the merged state, in one transaction where the runtime can."""
        ...

    async def withdraw(self, fault_id: int) -> None:
        """Remove this fault's contribution. Idempotent."""
        ...

    async def heal_all(self) -> None:
        """Withdraw everything, shapes and toxics included. Idempotent."""
        ...

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        """The merged state in force."""
        ...

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        """Send a probe over each directed link, independent of the servers; return what became of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """What happens to the bytes of a stream: Toxiproxy's kind ("latency", ...) and its attributes by name."""

    kind: str
    attributes: Mapping[str, int] = field(default_factory=dict)
    toxicity: float = 1.0


class ConnectionEnding(StrEnum):
    """How a connection of ours ended: complete, closed or reset before that, or silent until the deadline."""

    COMPLETE = "complete"
    CLOSED = "closed early"
    RESET = "reset"
    SILENT = "silent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What one connection of ours over a link showed: some round trips, then many bytes at once.

    `byte_count` and `pieces` (separate reads) count the whole connection, `rate_kb_s` the many bytes only. `closing_ms`
    is the time from the last byte to the end of the connection, `ended_ms` from its beginning to its end.
    """

    ending: ConnectionEnding
    round_trips_ms: tuple[float, ...] = ()
    byte_count: int = 0
    pieces: int = 0
    rate_kb_s: float = 0.0
    closing_ms: float = 0.0
    ended_ms: float = 0.0

    @property
    def round_trip_ms(self) -> float | None:
        """The shortest round trip; None when no answer came."""
        return min(self.round_trips_ms, default=None)

    def __str__(self) -> str:
        trips = self.round_trips_ms
        parts = [f"round trip {min(trips):.1f} to {max(trips):.1f} ms"] if trips else []
        if self.byte_count:
            parts.append(f"{self.byte_count} bytes in {self.pieces} pieces at {self.rate_kb_s:.4g} kB/s")
        return ", ".join([*parts, f"{self.ending} after {self.ended_ms:.0f} ms"])


class Streams(Protocol):
    """Faults above the packet level, on links whose connections go through a proxy (the need `STREAMS`)."""

    async def apply(self, fault_id: int, links: Mapping[Link, Toxic]) -> None:
        """Put this fault's toxics on the bytes of each directed link, and read them back."""
        ...

    async def withdraw(self, fault_id: int) -> None:
        """Remove this fault's toxics. Idempotent."""
        ...

    async def read_back(self) -> Mapping[Link, tuple[Toxic, ...]]:
        """Return the toxics in force on each link, as the proxy lists them."""
        ...

    async def measure(self, links: Iterable[Link], timeout_s: float = 5.0) -> Mapping[Link, Experience]:
        """Return what a new connection of ours over each link shows now; for the proof."""
        ...
