"""etcd: a strongly consistent key-value store on Raft, with leases."""

from typing import Final

SYSTEMS: Final = {"etcd": "fencepost.systems.etcd.system:ETCD"}
