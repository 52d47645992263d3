"""Brokers that keep a session with the controllers, or with what stands for them (Kafka)."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from fencepost.harness.contract.options import S_contra
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import BrokerBound


@runtime_checkable
class BoundsBrokers(Protocol[S_contra]):
    """It has brokers, and states by when one that reports to nobody is fenced."""

    def broker_bound(self, members: Sequence[Member], options: S_contra) -> BrokerBound:
        """The brokers among the members, the length of their sessions with these options, and the source."""
        ...
