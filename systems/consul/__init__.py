"""Consul: a key-value store with sessions and a catalog, replicated by Raft among its servers."""

from typing import Final

SYSTEMS: Final = {"consul": "fencepost.systems.consul.system:CONSUL"}
