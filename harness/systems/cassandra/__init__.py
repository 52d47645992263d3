"""Apache Cassandra: rows on replicas, with lightweight transactions by Paxos; no node leads."""

from fencepost.harness.systems.cassandra.system import CASSANDRA

__all__ = ["CASSANDRA"]
