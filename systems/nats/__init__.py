"""NATS JetStream: streams replicated by Raft, used as key-value storage."""

from typing import Final

SYSTEMS: Final = {"nats": "fencepost.systems.nats.system:NATS"}
FAULTS: Final = {"reassign": "fencepost.systems.nats.reassign:Reassign"}
ABILITIES: Final = {"replicas": "fencepost.systems.nats.placing:PlacesReplicas"}
