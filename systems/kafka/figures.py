"""Rows of lists among the figures of Kafka's checkers that the report reads by field, and names that it looks up."""

from typing import Final

import msgspec

from fencepost.harness.verdict.figures import Traced

#: Transactions in ZooKeeper's log after a claim.
WRITES: Final = "writes"
#: Lists that the report shows in tables of their own, or not at all since others say the same.
COSTS: Final = frozenset({"faults", "attachments", "deposed", "told", "denied"})


class FaultCost(msgspec.Struct, frozen=True, kw_only=True):
    """One fault's. Times are since it certainly held (`from_ns`) or, for `deposed_*`, since it was healed (`to_ns`).

    `leaderless_ns`: until a new leader was known, when the fault took the leader; None when it did not or none came.
    `changes_resumed_ns`: until the first change that was asked for after the fault was acknowledged. The rows of a
    number of epochs are the first and the last of them.
    """

    fault_id: int
    fault: str
    target: str
    nodes: tuple[str, ...]
    from_ns: Traced[int]
    to_ns: Traced[int]
    leader: Traced[str] | None
    epoch_before: Traced[int] | None
    epoch_when_healed: Traced[int] | None
    epoch_after: Traced[int] | None
    leaderless_ns: Traced[int] | None
    changes_resumed_ns: Traced[int] | None
    came_back: Traced[tuple[str, ...]]
    healthy_leader: Traced[str] | None
    deposed_after_ns: Traced[int] | None
    deposed_leaderless_ns: Traced[int] | None
    deposed_epochs: Traced[int]
    stalled: bool


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """`broker` and the beginning of epoch `superseded_by`, at `from_ns`.

    `named_ns`: so long after that it certainly still named `epoch`, which `leader` led; 0 when it did not.
    `followed_ns`: so long after that it first named the new epoch or a later one; None when it never did. `missed`
    counts the acknowledged changes that stale answers lack. Of `undecided_describes` nobody knows whether they are
    stale: with any of them, the others are a lower bound.
    """

    broker: str
    epoch: Traced[int]
    leader: Traced[str] | None
    superseded_by: Traced[int]
    from_ns: Traced[int]
    named_ns: Traced[int]
    followed_ns: Traced[int] | None
    silent: Traced[int]
    stale_describes: Traced[int]
    undecided_describes: Traced[int]
    stale_age_ns_max: Traced[int]
    missed: Traced[int]

    @property
    def length(self) -> Traced[int]:
        """How long it was not yet with the new controller, as far as its own answers tell, in ns."""
        return self.named_ns if self.followed_ns is None else self.followed_ns


class Denied(msgspec.Struct, frozen=True, kw_only=True):
    """How often one node denied a name that was taken, from when to when, and how long after it was taken at most.

    `proofs` counts what proves that the names were taken.
    """

    node: str
    denials: Traced[int]
    from_ns: Traced[int]
    to_ns: Traced[int]
    late_ns_max: Traced[int]
    proofs: Traced[int]
