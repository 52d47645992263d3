"""Consul: a key-value store with sessions and a catalog, replicated by Raft among its servers."""

from fencepost.harness.systems.consul.system import CONSUL

__all__ = ["CONSUL"]
