"""What Kafka promises while it migrates from ZooKeeper to KRaft.

KIP-866 promises a migration without downtime and without loss: "no loss of metadata, no split brain". A cluster keeps
what both modes promise. What only one mode promises is measured.
"""

from typing import Final

from fencepost.harness.verdict import Guarantee, LeadershipBound, Standing
from fencepost.systems.kafka.zookeeper_mode.guarantees import GUARANTEES as IN_ZOOKEEPER_MODE

_OWN: Final = (
    Guarantee(
        name="metadata-durable",
        standing=Standing.PROMISED,
        text="An acknowledged change of metadata is never lost, whichever of the two stores it was made in, and no"
        " other acknowledged change contradicts it.",
        source="KIP-866: all metadata is copied in one transaction before KRaft accepts a change; both stores"
        " acknowledge a change once a majority has logged it",
    ),
    Guarantee(
        name="metadata-converges",
        standing=Standing.PROMISED,
        text="After the faults are healed, every broker reaches the same metadata, in whichever mode it is.",
        source="KIP-866: the KRaft controller sends brokers in ZooKeeper mode all metadata; others replicate the log",
    ),
    Guarantee(
        name="metadata-log-agrees",
        standing=Standing.PROMISED,
        text="The servers of one store hold the same entry at each position of its log, in the order of the"
        " acknowledgements, and every acknowledged change is on a majority of one store's disks.",
        source="ZooKeeper Internals: total order; KIP-595: log matching",
    ),
    Guarantee(
        name="superseded-leader-does-not-act",
        standing=Standing.PROMISED,
        text="Once a later controller epoch has begun, no change takes effect in an earlier epoch, and no change that"
        " the earlier controller acknowledges is lost.",
        source="KIP-866: a claim raises /controller_epoch, whose version is checked by every write of a controller",
    ),
    Guarantee(
        name="epochs-never-go-back",
        standing=Standing.PROMISED,
        text="The controller epoch only grows, across brokers and KRaft controllers; so does the epoch of the quorum.",
        source="KafkaZkClient.tryRegisterKRaftControllerAsActiveController: a claim raises /controller_epoch if its"
        " version is unchanged; KIP-595",
    ),
    Guarantee(
        name="one-leader-per-epoch",
        standing=Standing.PROMISED,
        text="At most one node is the controller in a controller epoch, whether broker or KRaft controller.",
        source="KIP-866: a claim replaces /controller and raises /controller_epoch in one transaction",
    ),
    Guarantee(
        name="leader-self-fencing",
        standing=Standing.MEASURED,
        text="A controller that is cut off stops claiming to be the controller.",
        source="nobody promises it: only ZooKeeper tells a broker that its session has ended",
        known_issue="a controller that is cut off claims to lead until it is reached again",
    ),
    Guarantee(
        name="broker-fenced-in-time",
        standing=Standing.MEASURED,
        text="A broker that is not heard of is removed within 1.5 of its sessions and a second.",
        source="nobody promises how soon; a broker has a session with ZooKeeper or with the quorum, by its mode",
    ),
)
_OF_THE_MIGRATION: Final = (
    Guarantee(
        name="claims-in-order",
        standing=Standing.PROMISED,
        text="Each election of a broker and each claim of a KRaft controller raises /controller_epoch by one (a person"
        " may raise it in between), and the epoch of KRaft's quorum in /controller never falls.",
        source="KafkaZkClient.tryRegisterKRaftControllerAsActiveController: a claim of an earlier epoch is refused",
    ),
    Guarantee(
        name="migration-goes-on",
        standing=Standing.PROMISED,
        text="Each phase of the migration begins within a minute after the last step before it, once the faults are"
        " healed.",
        source="KIP-866: the controller begins the copy once every broker has registered, and a new controller goes on"
        " where the last one was; it names no time",
    ),
    Guarantee(
        name="brokers-keep-up",
        standing=Standing.PROMISED,
        text="Once the faults are healed, every broker, in whichever mode, shows within ten seconds what was"
        " acknowledged.",
        source="KIP-866: the controller sends brokers in ZooKeeper mode every change and, after a failover, everything;"
        " others replicate the log; it names no time",
    ),
    Guarantee(
        name="zookeeper-keeps-up",
        standing=Standing.PROMISED,
        text="Until the migration is final, ZooKeeper gets every change that KRaft acknowledges, within ten seconds"
        " once the faults are healed, and before a roll-back ends.",
        source='KIP-866, "Dual Write Mode": changes are also written to ZooKeeper so that there is a way back; it names'
        " no time",
    ),
    Guarantee(
        name="both-stores-agree",
        standing=Standing.PROMISED,
        text="Until the migration is final, ZooKeeper has the metadata that KRaft's log makes up to the offset in"
        " /migration, and no other; what differs for a moment is mended.",
        source='KIP-866, "Dual Write Mode": /migration records the last offset that was written to ZooKeeper',
    ),
    Guarantee(
        name="zookeeper-is-left",
        standing=Standing.MEASURED,
        text="Once a KRaft controller has claimed /controller, no earlier controller and no broker writes metadata to"
        " ZooKeeper.",
        source="nobody promises it: /migration, notifications, and the settings that a broker in ZooKeeper mode makes"
        " are written without a check of /controller_epoch",
        known_issue="KAFKA-16171, KAFKA-16667: a controller that was paused overwrites /migration",
    ),
)
_BY_NAME: Final = {guarantee.name: guarantee for guarantee in _OWN}
GUARANTEES: Final = (
    *(_BY_NAME.get(guarantee.name, guarantee) for guarantee in IN_ZOOKEEPER_MODE),
    *_OF_THE_MIGRATION,
)

LEADERSHIP: Final = LeadershipBound(
    bound_ns=None,
    source="nothing bounds it in ZooKeeper mode: a controller learns that its session ended when it reaches ZooKeeper",
    standing=Standing.MEASURED,
    one_leader_per_epoch=True,
    watch_ns=15_000_000_000,
)
