"""What Kafka promises in ZooKeeper mode. It promises nothing about how long a cut-off controller claims to lead.

The controller is the broker that made the znode /controller. A controller learns that its session expired only from
ZooKeeper, so a controller that is cut off claims to lead until the cut is healed (measured). Meanwhile two things fence
it: the version of /controller_epoch fences its writes to ZooKeeper, and the epoch in its requests fences them at
brokers.
"""

from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.verdict import Guarantee, LeadershipBound, Standing
from fencepost.systems.kafka.guarantees import (
    BROKER_GUARANTEES,
    KEPT_BY_BROKERS,
    PARTITION_STATE_GUARANTEES,
    PRODUCER_ID_GUARANTEES,
)
from fencepost.systems.kafka.guarantees import unpromised as unpromised_by_brokers
from fencepost.systems.zookeeper.guarantees import unpromised as unpromised_by_keepers

GUARANTEES: Final = (
    Guarantee(
        name="metadata-durable",
        standing=Standing.PROMISED,
        text="An acknowledged change of metadata is never lost, and no other acknowledged change contradicts it.",
        source="ZooKeeper's Programmer's Guide: reliability; the controller answers once its znodes are written",
    ),
    Guarantee(
        name="metadata-forward",
        standing=Standing.MEASURED,
        text="While a broker lives, its view of the metadata only moves forward.",
        source="nobody promises it: a broker reads settings from the ZooKeeper that it happens to be connected to",
    ),
    Guarantee(
        name="metadata-converges",
        standing=Standing.PROMISED,
        text="After the faults are healed, every broker reaches the same metadata.",
        source="ZooKeeper's Programmer's Guide: timeliness; a new controller sends the whole metadata to every broker",
    ),
    Guarantee(
        name="metadata-log-agrees",
        standing=Standing.PROMISED,
        text="For each zxid all ZooKeepers' disks hold the same transaction, in the order of the acknowledgements, and"
        " every acknowledged change is on a majority of the disks.",
        source="ZooKeeper Internals: total order; a change is committed once a quorum has logged it",
    ),
    Guarantee(
        name="topic-names-linearizable",
        standing=Standing.MEASURED,
        text="The controller's answers about whether a topic name is taken are linearizable with creations.",
        source="nobody promises it for requests that change nothing; the controller asks the server it is connected to",
    ),
    Guarantee(
        name="epochs-never-go-back",
        standing=Standing.PROMISED,
        text="The controller epoch only grows.",
        source="KafkaController.elect: /controller_epoch is written only if its version is unchanged",
    ),
    Guarantee(
        name="no-disruptive-rejoin",
        standing=Standing.MEASURED,
        text="A broker that comes back does not depose the controller.",
        source="nobody promises it",
    ),
    *PARTITION_STATE_GUARANTEES,
    Guarantee(
        name="partition-states-forward",
        standing=Standing.MEASURED,
        text="While a broker lives, it names no earlier leader epoch of a partition than it has named before.",
        source="nobody promises it; a broker refuses requests of an earlier controller epoch"
        " (KafkaApis.handleUpdateMetadataRequest)",
    ),
    Guarantee(
        name="stale-broker-is-fenced",
        standing=Standing.MEASURED,
        text="A broker that gets no metadata from the controller does not count as alive.",
        source="nobody promises it: a broker counts as alive while its session with ZooKeeper lives, whether or not the"
        " controller reaches it (KIP-500, Motivation)",
        known_issue="a broker that only the controller cannot reach stays alive, and its clients get its old metadata",
    ),
    *BROKER_GUARANTEES,
    Guarantee(
        name="broker-fenced-in-time",
        standing=Standing.MEASURED,
        text="A broker that ZooKeeper does not hear of is removed within 1.5 of its sessions and a second.",
        source="ZooKeeper ends the session, and the controller removes the broker when it is told"
        " (KafkaController.processBrokerChange); nobody promises how soon",
    ),
    *PRODUCER_ID_GUARANTEES,
    *KEPT_BY_BROKERS,
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one broker is the controller in a controller epoch.",
        source="KafkaController.elect: /controller is made and /controller_epoch is raised in one transaction",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later controller epoch has begun, no change takes effect in an earlier epoch, and no change that"
        " the earlier controller acknowledges is lost.",
        source="KAFKA-6082, released with 2.1.0: each write of a controller checks the version of /controller_epoch",
    ),
    Guarantee(
        name="client-changes-are-fenced",
        standing=Standing.MEASURED,
        text="Once a later controller is elected, an earlier controller makes no change for a client.",
        source="nobody promises it: the transactions that create or delete a topic for a client check no epoch",
        known_issue="a broker checks its role first and writes to ZooKeeper later",
    ),
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.MEASURED,
        text="A controller that is cut off from ZooKeeper stops claiming to be the controller.",
        source="nobody promises it: only ZooKeeper tells it that its session has ended, and that is after the cut",
        known_issue="a cut-off controller claims to lead until it reaches ZooKeeper again",
    ),
)

LEADERSHIP: Final = LeadershipBound(
    bound_ns=None,
    source="nothing bounds it in ZooKeeper mode: a controller learns that its session ended when it reaches ZooKeeper",
    standing=Standing.MEASURED,
    # Answers name no epoch. The epoch is the one that the node's own log names for that time, or none.
    one_leader_per_epoch=True,
    watch_ns=30_000_000_000,
)


def unpromised(settings: Settings) -> dict[str, str]:
    """The guarantees that these settings of brokers and ZooKeepers do not give, with the reason."""
    reasons = list(unpromised_by_keepers(settings).values())
    metadata = dict.fromkeys(("metadata-durable", "metadata-log-agrees"), reasons[0]) if reasons else {}
    return {**unpromised_by_brokers(settings), **metadata}
