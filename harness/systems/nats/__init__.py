"""NATS JetStream: streams replicated by Raft, used as key-value storage."""

from fencepost.harness.systems.nats.system import NATS

__all__ = ["NATS"]
