"""How long a leader of NATS that is cut off may claim to lead. What NATS promises stands in `guarantees.toml`."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.guarantees import source_of
from fencepost.harness.history import Clock
from fencepost.harness.verdict import LeadershipBound, ResumeBound, Standing
from fencepost.systems.nats.options import NatsOptions

GUARANTEES: Final = Path(__file__).with_name("guarantees.toml")
_SECOND_NS: Final = 1_000_000_000
#: `lostQuorumInterval`, and the pause between two looks (`lostQuorumCheck`).
_LOST_QUORUM_NS: Final = 10 * _SECOND_NS
_LOOK_NS: Final = 10 * _SECOND_NS
#: `maxElectionTimeout`.
_ELECTION_NS: Final = 9 * _SECOND_NS


def leadership_bound(options: NatsOptions, version: str = "") -> LeadershipBound:
    """The longest time for which a cut-off leader claims to lead, as the server's code has it: 20 s."""
    return LeadershipBound(
        bound_ns=_LOST_QUORUM_NS + _LOOK_NS,
        source=source_of(GUARANTEES, "leader-self-fencing"),
        standing=Standing.MEASURED,
        one_leader_per_epoch=True,
        clocks=(Clock.MONOTONIC,),
    )


def resume_bound(options: NatsOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    return ResumeBound(
        bound_ns=2 * _ELECTION_NS,
        source="raft.go: a replica stands after at most 9 s (maxElectionTimeout) without a leader; two attempts",
    )
