"""The ways in which packets come to the process that shapes them; the first that this kernel has is taken.

The queue first: the kernel keeps the packets, and they are those of a wire. The relay needs no queue, but stands in the
lab's router only.
"""

import contextlib
import socket
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TypeAlias

from fencepost.harness.runtime.links.packet_rules import Where
from fencepost.harness.runtime.shaping.packet_queue import open_copier, open_queue
from fencepost.harness.runtime.shaping.packet_relay import RelayRules, open_relay
from fencepost.harness.runtime.shaping.queue_rules import QueueRules


class HoldingRules(Protocol):
    """The rules of one network namespace that lead packets of chosen pairs of addresses to the process."""

    @property
    def means(self) -> str: ...
    def replace(self, keys: Iterable[bytes]) -> None: ...
    def read(self) -> set[bytes]: ...
    def remove(self) -> None: ...
    def close(self) -> None: ...


#: The rules, and the sockets for the process; made in the calling thread's namespace.
Opened: TypeAlias = tuple[HoldingRules, list[socket.socket]]
Way: TypeAlias = Callable[[Where], Opened]


def by_queue(where: Where) -> Opened:
    with contextlib.ExitStack() as undo:
        sockets = [undo.enter_context(open_queue()), undo.enter_context(open_copier())]
        rules = QueueRules(where)
        undo.pop_all()
    return rules, sockets


def by_relay(where: Where) -> Opened:
    if where is not Where.ROUTER:
        raise OSError("a relay stands in the lab's router only")
    rules = RelayRules()
    try:
        return rules, [open_relay()]
    except OSError:
        rules.remove()
        rules.close()
        raise


WAYS: Final[tuple[Way, ...]] = (by_queue, by_relay)


def open_here(where: Where, ways: Iterable[Way] = WAYS) -> Opened:
    """Raises OSError that names why each way is barred."""
    refused = []
    for way in ways:
        try:
            return way(where)
        except OSError as error:
            refused.append(str(error))
    raise OSError("; ".join(refused))
