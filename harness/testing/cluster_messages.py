"""What a test's process and the process that holds its cluster say to each other: one JSON object a line, by type."""

from collections.abc import Iterable
from typing import Final

import msgspec

from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.runtime.node import Member

#: Host and port.
Address = tuple[str, int]


def serving(members: Iterable[Member]) -> tuple[str, ...]:
    """Return the nodes that serve clients, in order: the listening sockets have the same order."""
    return tuple(member.name for member in members if CLIENT in member.dialled)


class Inject(msgspec.Struct, tag=True, frozen=True):
    """Inject one fault, as a plan writes it; `seed` decides what it draws. Answered by Injected."""

    fault: str
    seed: int


class Heal(msgspec.Struct, tag=True, frozen=True):
    """Answered by Healed."""

    fault_id: int


class WhoLeads(msgspec.Struct, tag=True, frozen=True):
    """Answered by Leads, once a node leads that is not `other_than`, or the time is over."""

    timeout_s: float
    other_than: str | None


class Execute(msgspec.Struct, tag=True, frozen=True):
    """Run a program where the nodes can be reached. Answered by Executed."""

    argv: tuple[str, ...]
    timeout_s: float


Request = Inject | Heal | WhoLeads | Execute


class Ready(msgspec.Struct, tag=True, frozen=True):
    """The servers serve: their release, and the address of each node's clients where the nodes live."""

    version: str
    inside: dict[str, Address]


class Injected(msgspec.Struct, tag=True, frozen=True):
    """`installed`: the proof shows that the fault is in force; else the text says why not."""

    fault_id: int
    nodes: tuple[str, ...]
    installed: bool
    skipped: bool
    proof: str


class Healed(msgspec.Struct, tag=True, frozen=True):
    """`healed`: the proof shows that the fault is over."""

    healed: bool
    proof: str


class Leads(msgspec.Struct, tag=True, frozen=True):
    """The node that leads and its epoch; None where no node says that it leads."""

    node: str | None
    epoch: int | None


class Executed(msgspec.Struct, tag=True, frozen=True):
    """How the program ended; `status` is None when it was killed at the end of its time."""

    status: int | None
    stdout: str
    stderr: str


class RequestRefused(msgspec.Struct, tag=True, frozen=True):
    """The request, or the start of the cluster, failed."""

    message: str
    hint: str | None
    exit_code: int


Reply = Ready | Injected | Healed | Leads | Executed | RequestRefused

#: The field that tells messages of these types from lines of progress.
TYPE: Final = "type"
