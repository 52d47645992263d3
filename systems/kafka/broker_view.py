"""What one Kafka broker says of the cluster: the value of an ok `view`.

In a history it stands as [broker, live brokers, [[partition, leader, epoch, in-sync replicas], ...]], by node ids.
"""

from typing import Final

import msgspec

from fencepost.harness.history.operation import Value

#: The leader of a partition for which the broker names none.
NO_LEADER: Final = -1


class PartitionState(msgspec.Struct, frozen=True, array_like=True):
    """One partition as a broker knows it; `leader` is `NO_LEADER` where it names none that is alive."""

    partition: int
    leader: int
    epoch: int
    in_sync: tuple[int, ...]


class BrokerView(msgspec.Struct, frozen=True, array_like=True):
    """The id of the broker that answers, the brokers that it takes for alive, and the partitions in order."""

    broker: int
    live: tuple[int, ...]
    partitions: tuple[PartitionState, ...]

    def value(self) -> Value:
        """Return the value for a history."""
        return msgspec.to_builtins(self)

    def says_the_same(self, other: "BrokerView") -> bool:
        """Whether another broker's view is the same."""
        return self.live == other.live and self.partitions == other.partitions


def broker_view(value: Value) -> BrokerView:
    """Read the value of an ok `view`; raises msgspec.ValidationError where it is none."""
    return msgspec.convert(value, BrokerView)
