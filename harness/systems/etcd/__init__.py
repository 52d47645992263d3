"""etcd: a strongly consistent key-value store on Raft, with leases."""

from fencepost.harness.systems.etcd.system import ETCD

__all__ = ["ETCD"]
