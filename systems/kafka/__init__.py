"""Kafka, with controllers of its own (`kraft`) or on ZooKeeper (`zookeeper_mode`).

`wire/` has the bytes of the protocol, the connection and the table from error codes to outcomes. `client/` has the
requests by name, the questions about a node's role, and the protocols of `harness.coordination`. `server/` starts
servers and reads their logs. `protocols.py` has what Kafka alone offers to workloads, and `workloads/` asks for it.
"""

from typing import Final

SYSTEMS: Final = {
    "kafka-bridge": "fencepost.systems.kafka.bridge:KAFKA_BRIDGE",
    "kafka-zk": "fencepost.systems.kafka.zookeeper_mode:KAFKA_ZK",
    "kraft": "fencepost.systems.kafka.kraft:KRAFT",
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
    "deposes-controller": "fencepost.systems.kafka.contract.deposing:DeposesController",
    "leads-partitions": "fencepost.systems.kafka.contract.partition_leaders:LeadsPartitions",
    "measures-failover": "fencepost.systems.kafka.contract.failover:MeasuresFailover",
    "migrates-metadata": "fencepost.systems.kafka.contract.migration:MigratesMetadata",
}
COMMANDS: Final = {
    "failover": (
        "fencepost.systems.kafka.failover.command",
        "Measure how long Kafka is without a controller.",
        "Many runs",
    ),
}
