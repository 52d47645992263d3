"""What Kafka promises in ZooKeeper mode; nothing on how long a cut-off controller goes on believing in itself.

The controller is the broker that made the znode /controller. A controller whose session expired learns of it only when
ZooKeeper tells it, so one that is cut off goes on believing until it is healed (measured). What it would do meanwhile
is fenced: its writes to ZooKeeper by the version of /controller_epoch, its requests to brokers by the epoch in them.
"""

from typing import Final

from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.kafka.guarantees import ELECTION_GUARANTEES, LOG_GUARANTEES, PRODUCER_ID_GUARANTEES
from fencepost.harness.systems.kafka.guarantees import unpromised as unpromised_by_brokers
from fencepost.harness.systems.zookeeper.guarantees import unpromised as unpromised_by_keepers
from fencepost.harness.verdict import Guarantee, LeadershipBound, Standing

GUARANTEES: Final = (
    Guarantee(
        name="metadata-durable",
        standing=Standing.PROMISED,
        text="A change of metadata that was acknowledged is never lost and never contradicted by another one.",
        source="ZooKeeper's Programmer's Guide: reliability; the controller answers once its znodes are written",
    ),
    Guarantee(
        name="metadata-forward",
        standing=Standing.MEASURED,
        text="While a broker lives, its view of the metadata only moves forward.",
        source="nobody promises it: brokers read settings from whichever ZooKeeper they are connected to",
    ),
    Guarantee(
        name="metadata-converges",
        standing=Standing.PROMISED,
        text="Once faults are healed, every broker reaches the same metadata.",
        source="ZooKeeper's Programmer's Guide: timeliness; a new controller sends the whole metadata to every broker",
    ),
    Guarantee(
        name="metadata-log-agrees",
        standing=Standing.PROMISED,
        text="The ZooKeepers' disks hold the same transaction of one zxid, in the order of what was acknowledged, and a"
        " majority of them every acknowledged change.",
        source="ZooKeeper Internals: total order; a change is committed once a quorum has logged it",
    ),
    Guarantee(
        name="topic-names-linearizable",
        standing=Standing.MEASURED,
        text="Whether a topic's name is taken, asked of the controller, is linearizable with creations.",
        source="nobody promises it of requests that change nothing; the controller asks the server it is connected to",
    ),
    Guarantee(
        name="epochs-never-go-back",
        standing=Standing.PROMISED,
        text="The controller epoch only grows.",
        source="KafkaController.elect: /controller_epoch is written on condition of its version",
    ),
    Guarantee(
        name="no-disruptive-rejoin",
        standing=Standing.MEASURED,
        text="A broker that comes back does not depose the controller.",
        source="nobody promises it",
    ),
    *PRODUCER_ID_GUARANTEES,
    *LOG_GUARANTEES,
    *ELECTION_GUARANTEES,
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="Of one controller epoch there is at most one controller.",
        source="KafkaController.elect: /controller is made and /controller_epoch is raised in one transaction",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later controller epoch has begun, nothing takes effect under an earlier one, and nothing that the"
        " controller of an earlier one acknowledges is lost.",
        source="KAFKA-6082, released with 2.1.0: a controller writes on condition of the version of /controller_epoch",
    ),
    Guarantee(
        name="client-changes-are-fenced",
        standing=Standing.MEASURED,
        text="Once a later controller is elected, an earlier one makes no change for a client.",
        source="nobody promises it: ZooKeeper's transactions that make or delete a topic for a client check no epoch",
        known_issue="a broker looks at its role once, and asks ZooKeeper later",
    ),
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.MEASURED,
        text="A controller that is cut off from ZooKeeper stops claiming to be it.",
        source="nobody promises it: it learns of its session's end from ZooKeeper, so after the cut",
        known_issue="a cut-off controller claims until it reaches ZooKeeper again",
    ),
)

LEADERSHIP: Final = LeadershipBound(
    bound_ns=None,
    source="in ZooKeeper mode nothing bounds it: a controller learns of its session's end when it reaches ZooKeeper",
    standing=Standing.MEASURED,
    # Answers name no epoch; it is the one that the node's own log names for that time, or none.
    one_leader_per_epoch=True,
    watch_ns=30_000_000_000,
)


def unpromised(settings: Settings) -> dict[str, str]:
    """`harness.systems.contract.conditions.QualifiesPromises`, by the settings of brokers and of ZooKeepers."""
    reasons = list(unpromised_by_keepers(settings).values())
    metadata = dict.fromkeys(("metadata-durable", "metadata-log-agrees"), reasons[0]) if reasons else {}
    return {**unpromised_by_brokers(settings), **metadata}
