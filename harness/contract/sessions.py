"""Nodes that keep a session with those that hold the metadata (Kafka's brokers)."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from fencepost.harness.contract.options import S_contra
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import SessionBound


@runtime_checkable
class BoundsSessions(Protocol[S_contra]):
    """It has nodes that keep a session, and states by when one that reports to nobody is fenced."""

    def session_bound(self, members: Sequence[Member], options: S_contra) -> SessionBound:
        """These nodes among the members, the length of their sessions with these options, and the source."""
        ...
