"""Requests that a broker passes on to the controller: it may hand one over again when its connection is lost."""

from typing import Final

#: A request that was acknowledged within this time was handed over once: a lost connection is not dialled again for
#: 50 ms (NodeToControllerChannelManager of Kafka).
HANDED_OVER_ONCE_NS: Final = 50_000_000
