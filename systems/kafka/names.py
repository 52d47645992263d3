"""What servers and clients of one Kafka cluster agree on: a role, ports, and the cluster's id."""

from typing import Final

#: The role of nodes that keep partitions.
BROKER: Final = "broker"
CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
#: Far enough from the controllers' for a port of its own on each node behind Toxiproxy.
BROKER_PORT: Final = 9194
#: The topic of appends: histories name its partitions `p<i>`, servers' logs "log-<i>".
LOG_TOPIC: Final = "log"
#: Any id will do: no two of our clusters can reach one another.
CLUSTER_ID: Final = "ZmVuY2Vwb3N0LWtyYWZ0MQ"
