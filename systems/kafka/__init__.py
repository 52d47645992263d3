"""Kafka, with controllers of its own (`kraft`) or on ZooKeeper (`zookeeper_mode`).

`wire/` has the bytes of the protocol, the connection and the table from error codes to outcomes. `client/` has the
requests by name, the questions about a node's role, and the protocols of `harness.coordination`. `server/` starts
servers and reads their logs. `protocols.py` has what Kafka alone offers to workloads, and `workloads/` asks for it.
`checkers/` judges what only Kafka promises, by what `facts/` takes from a history, and `report/` shows it.
"""

from typing import Final

SYSTEMS: Final = {
    "kafka-bridge": "fencepost.systems.kafka.bridge:KAFKA_BRIDGE",
    "kafka-zk": "fencepost.systems.kafka.zookeeper_mode:KAFKA_ZK",
    "kraft": "fencepost.systems.kafka.kraft:KRAFT",
}
CHECKERS: Final = {
    "both-stores": "fencepost.systems.kafka.checkers.metadata.both_stores:check",
    "brokers": "fencepost.systems.kafka.checkers.brokers:check",
    "consumer-groups": "fencepost.systems.kafka.checkers.groups:check",
    "dual-write": "fencepost.systems.kafka.checkers.metadata.dual_write:check",
    "ground-truth": "fencepost.systems.kafka.checkers.metadata.ground_truth:check",
    "handover": "fencepost.systems.kafka.checkers.metadata.handover:check",
    "log-transactions": "fencepost.systems.kafka.checkers.log_transactions:check",
    "metadata": "fencepost.systems.kafka.checkers.metadata:check",
    "metadata-listeners": "fencepost.systems.kafka.checkers.metadata.listeners:check",
    "partition-states": "fencepost.systems.kafka.checkers.metadata.partition_states:check",
    "producer-ids": "fencepost.systems.kafka.checkers.producer_ids:check",
    "progress": "fencepost.systems.kafka.checkers.metadata.progress:check",
    "rejoin": "fencepost.systems.kafka.checkers.metadata.rejoin:check",
    "snapshots": "fencepost.systems.kafka.checkers.metadata.snapshots:check",
    "topic-names": "fencepost.systems.kafka.checkers.metadata.topic_names:check",
    "topics": "fencepost.systems.kafka.checkers.topics:check",
    "zombie-controllers": "fencepost.systems.kafka.checkers.metadata.zombie_controllers:check",
}
_OF_EVERY_RUN: Final = ("zombie-controllers", "handover", "dual-write", "both-stores", "progress", "brokers")
RUN_CHECKERS: Final = {"kafka-bridge": _OF_EVERY_RUN, "kafka-zk": _OF_EVERY_RUN, "kraft": _OF_EVERY_RUN}
JUDGES: Final = {
    "both-stores": ("both-stores-agree",),
    "consumer-groups": (
        *("group-commits-durable", "group-generations-fence", "group-offsets-fresh", "group-one-owner"),
    ),
    "dual-write": ("zookeeper-keeps-up",),
    "ground-truth": ("metadata-log-agrees",),
    "handover": ("claims-in-order", "zookeeper-is-left"),
    "log-transactions": (
        *("aborted-transactions-hidden", "no-hanging-transactions", "transactional-producers-fenced"),
        *("transactions-atomic", "transactions-durable", "transforms-exactly-once"),
    ),
    "metadata": ("epochs-never-go-back", "metadata-converges", "metadata-durable", "metadata-forward"),
    "metadata-listeners": ("metadata-listener-complete", "metadata-listener-order"),
    "partition-states": (
        *("partition-states-agree", "partition-states-converge", "partition-states-forward", "partition-states-fresh"),
        *("stale-broker-is-fenced", "fencing-is-told"),
        # What every run with brokers has judged.
        *("broker-fenced-in-time", "broker-self-fencing", "in-sync-changes-are-kept", "broker-states"),
        *("leaders-are-eligible", "broker-epochs", "one-broker-per-id", "eligible-replicas-kept"),
        *("controlled-shutdown", "controlled-shutdown-unnoticed", "orderly-restart-unnoticed"),
    ),
    "producer-ids": ("unique-producer-ids",),
    "progress": ("brokers-keep-up", "migration-goes-on"),
    "rejoin": ("no-disruptive-rejoin",),
    "snapshots": ("snapshots-are-loaded", "snapshots-match-log"),
    "topic-names": ("topic-names-linearizable",),
    "topics": ("topics-keep-records", "topics-stay-dropped"),
    "zombie-controllers": ("client-changes-are-fenced", "superseded-leader-does-not-act"),
}
_LISTENING: Final = {"listeners": 1}
JUDGED_WITH: Final = {"metadata-listener-complete": _LISTENING, "metadata-listener-order": _LISTENING}
JUDGED_UNDER: Final = {
    "both-stores-agree": "migrate:all",
    "brokers-keep-up": "migrate:all",
    "claims-in-order": "migrate:all",
    "controlled-shutdown": "rolling:all",
    "controlled-shutdown-unnoticed": "rolling:all",
    "migration-goes-on": "migrate:all",
    "orderly-restart-unnoticed": "rolling:all",
    "zookeeper-is-left": "migrate:all",
    "zookeeper-keeps-up": "migrate:all",
}
FACT_TABLES: Final = {
    "lags": "fencepost.systems.kafka.facts.replicas:LAGS_TABLE",
    "in-sync": "fencepost.systems.kafka.facts.replicas:IN_SYNC_TABLE",
}
REPORT_SECTIONS: Final = {
    "brokers": "fencepost.systems.kafka.report.brokers:SECTION",
    "costs": "fencepost.systems.kafka.report.costs:TABLES",
    "handover": "fencepost.systems.kafka.report.handover:TABLES",
    "lags": "fencepost.systems.kafka.report.lags:TABLES",
    "in-sync": "fencepost.systems.kafka.report.in_sync:TABLES",
}
WORKLOADS: Final = {
    "consumer-groups": "fencepost.systems.kafka.workloads.consumer_groups:ConsumerGroups",
    "log-transactions": "fencepost.systems.kafka.workloads.log_transactions:LogTransactions",
    "metadata": "fencepost.systems.kafka.workloads.metadata:MetadataWorkload",
    "partition-states": "fencepost.systems.kafka.workloads.partition_states:PartitionStatesWorkload",
    "producer-ids": "fencepost.systems.kafka.workloads.producer_ids:ProducerIds",
    "topics": "fencepost.systems.kafka.workloads.topics:TopicsWorkload",
}
PROBES: Final = {"metadata": "fencepost.systems.kafka.conformance_probe:NameProbe"}
FAULTS: Final = {
    "depose": "fencepost.systems.kafka.faults.depose:Depose",
    "migrate": "fencepost.systems.kafka.faults.migrate:Migrate",
}
FAULT_TARGETS: Final = {
    "churn:partitions": "fencepost.systems.kafka.faults.partition_moves:PARTITIONS",
    "partition:broker-broker": "fencepost.systems.kafka.faults.partition_shapes:BROKER_BROKER",
    "partition:broker-metadata": "fencepost.systems.kafka.faults.partition_shapes:BROKER_METADATA",
    "partition:broker-controller": "fencepost.systems.kafka.faults.partition_shapes:BROKER_CONTROLLER",
    "partition:controller": "fencepost.systems.kafka.faults.partition_shapes:CONTROLLER",
}
ABILITIES: Final = {
    "open-administrator": "fencepost.systems.kafka.contract.deposing:DeposesController",
    "partition-reigns": "fencepost.systems.kafka.contract.partition_leaders:LeadsPartitions",
    "failover": "fencepost.harness.contract.failover:MeasuresFailover",
    "migration": "fencepost.systems.kafka.contract.migration:MigratesMetadata",
}
ANOMALY_WORDS: Final = {
    "change-not-heard": "change that a listener was not told of",
    "committed-entry-withdrawn": "withdrawal of a committed entry",
    "dropped-topic-is-back": "dropped topic that came back",
    "dropped-eligible": "eligible replica that was dropped",
    "epoch-skipped": "skipped epoch",
    "kraft-epoch-fell": "fall of KRaft's epoch",
    "lost-in-roll-back": "topic lost in the roll-back",
    "left-behind": "change that did not arrive",
    "listener-differs-from-disk": "contradiction between a listener and a disk",
    "listener-epoch-fell": "fall of a listener's epoch",
    "listener-missed-offset": "gap in what a listener was told",
    "migration-state-overwritten": "overwritten state of the migration",
    "fenced-commit": "commit of a fenced producer",
    "missing-transform": "input that was not transformed",
    "repeated-transform": "input that was transformed again",
    "uncounted-transform": "transformed input beyond the committed offset",
    "reused-producer-token": "producer whose token is no later one",
    "stale-generation-committed": "commit of an earlier generation",
    "two-owners-of-a-share": "pair of owners of one share",
    "unlogged-in-sync-change": "acknowledged change of in-sync replicas that no log has",
    "partition-state-after-claim": "state of a topic partition after a claim",
    "write-after-claim": "write after a claim",
    "broker-not-fenced": "silent broker that was not fenced",
    "ended-without-leave": "shutdown that no controller allowed",
    "fenced-broker-elected": "election of a fenced broker",
    "fenced-broker-in-sync": "fenced broker that counts as in sync",
    "left-as-leader": "broker that still led when it was let go",
    "served-without-controller": "broker that served without a controller",
    "committed-overwritten": "overwritten commit",
    "denied-taken-name": "denial of a taken name",
    "name-taken-twice": "name given twice",
    "snapshot-contradicts-log": "object of a snapshot that contradicts the log",
    "snapshot-not-loaded": "start from the whole log",
    "stale-broker-not-fenced": "stale broker that was not fenced",
    "two-leaders-of-one-epoch": "pair of leaders of one epoch",
    "two-views-of-one-offset": "pair of views of one offset",
}
