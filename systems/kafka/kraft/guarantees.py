"""How long a leader of KRaft that is cut off may claim to lead. What KRaft promises stands in `guarantees.toml`."""

from typing import Final

from fencepost.harness.base.options import Duration
from fencepost.harness.contract.releases import is_before
from fencepost.harness.verdict import LeadershipBound, ResumeBound, Standing
from fencepost.systems.kafka.server.options import BridgeOptions, KraftOptions

#: The first release whose leader checks whether a majority of voters still fetches from it.
CHECKS_QUORUM_SINCE: Final = (3, 7)
_ISSUE: Final = "KAFKA-15489"
#: A leader of 3.6.0 still claimed to lead 5 s after the heal of the cut by which it was superseded (measured).
WATCH_NS: Final = 30_000_000_000
#: The subject of claims to be the active controller, the layer above raft.
ACTIVE_CONTROLLER: Final = "controller"


def resume_bound(options: KraftOptions | BridgeOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    return ResumeBound(
        bound_ns=options.broker_session + options.fetch + 6 * options.election,
        source="a broker that is gone is fenced after broker.session.timeout.ms; before, a voter stands after "
        "controller.quorum.fetch.timeout.ms without a leader, and again after one to two election time-outs; three "
        "attempts",
    )


def checks_quorum(version: str) -> bool:
    """Whether a leader resigns when no majority fetches from it (KAFKA-15489); what has no number counts as new."""
    return not is_before(version, CHECKS_QUORUM_SINCE)


def leadership_bound(version: str, fetch: Duration, election: Duration) -> LeadershipBound:
    """The longest time for which a cut-off leader may claim to lead: 1.5 fetch time-outs.

    The controller above the raft layer hears of the end only when the time of ResignedState is over, which is drawn
    between one and two election time-outs.

    Args:
        version: the release; before 3.7.0 the bound is policy (`relied-upon`), from 3.7.0 on it is promised.
        fetch: controller.quorum.fetch.timeout.ms.
        election: controller.quorum.election.timeout.ms.

    Source: LeaderState.timeUntilCheckQuorumExpires, CHECK_QUORUM_TIMEOUT_FACTOR 1.5 (KAFKA-15489);
    KafkaRaftClient.pollResigned.
    """
    rule = f"1.5 x controller.quorum.fetch.timeout.ms {fetch}"
    if checks_quorum(version):
        source, standing = f"LeaderState of 3.7.0 and later: {rule} without a fetch of a majority", Standing.PROMISED
    else:
        source = f"policy: Kafka {version} promises nothing ({_ISSUE}); the rule of 3.7.0 is applied: {rule}"
        standing = Standing.RELIED_UPON
    return LeadershipBound(
        bound_ns=fetch * 3 // 2,
        source=source,
        standing=standing,
        one_leader_per_epoch=True,
        watch_ns=WATCH_NS,
        layers_ns={ACTIVE_CONTROLLER: fetch * 3 // 2 + 2 * election},
    )
