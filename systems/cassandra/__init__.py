"""Apache Cassandra: rows on replicas, with lightweight transactions by Paxos; no node leads."""

from typing import Final

SYSTEMS: Final = {"cassandra": "fencepost.systems.cassandra.system:CASSANDRA"}
CHECKERS: Final = {"late-effects": "fencepost.systems.cassandra.checkers.late_effects:check"}
JUDGES: Final = {"late-effects": ("serial-reads-settle",)}
