"""Resets of open TCP connections over links, proven by watching idle connections of our own.

A packet rule answers the next packet of a connection with a reset; an idle connection would notice nothing. So we ask
the kernel to end every connection between the two ends (SOCK_DESTROY, linux/sock_diag.h): the end where we ask sees an
error, and the other end a reset.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Any, Final

from fencepost.harness.runtime.network import CLIENT, Link

_CONNECT_S: Final = 1.0
_LOOK_S: Final = 0.005
#: Calls a method of the `IdleEnd` of an end of links.
At = Callable[..., Awaitable[Any]]


async def break_between(links: Iterable[Link], addresses: Mapping[str, str], at: At) -> int:
    """End the connections between the two ends of each link, whose direction does not matter; return their number."""
    return sum([await at(here, "destroy", addresses[there]) for here, there in _pairs(links, addresses)])


def _pairs(links: Iterable[Link], known: Container[str]) -> list[tuple[str, str]]:
    """Return each pair of known ends once, with a node first."""
    pairs = {(b, a) if a == CLIENT or (b != CLIENT and b < a) else (a, b) for a, b in links}
    return sorted((a, b) for a, b in pairs if a in known and b in known)


class IdleConnections:
    """`harness.runtime.network.PairedConnections`."""

    _numbers: Final = itertools.count()

    def __init__(self, at: At) -> None:
        self._at = at
        self._pairs: dict[str, tuple[str, str]] = {}
        self._connected: list[str] = []

    @classmethod
    async def open(cls, links: Iterable[Link], addresses: Mapping[str, str], at: At) -> "IdleConnections":
        """Open one connection over each pair of ends that can be connected now."""
        opened = cls(at)
        try:
            for accepting, dialling in _pairs(links, addresses):
                key = f"{accepting}-{dialling}-{next(cls._numbers)}"
                opened._pairs[key] = accepting, dialling
                port = await at(accepting, "listen", key, addresses[accepting])
                await at(dialling, "dial", key, addresses[accepting], port)
                deadline = time.monotonic() + _CONNECT_S
                while not (is_there := await at(accepting, "accept", key)) and time.monotonic() < deadline:
                    await asyncio.sleep(_LOOK_S)
                if is_there:  # else another fault cuts this link, and there is nothing to watch
                    opened._connected.append(key)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def ended(self, timeout_s: float) -> Mapping[frozenset[str], bool]:
        deadline = time.monotonic() + timeout_s
        ends = {end for key in self._connected for end in self._pairs[key]}
        while True:
            # Read before looking: the harness itself may have been late.
            is_last = time.monotonic() > deadline
            broken = {end: await self._at(end, "broken") for end in ends}
            ended = {
                frozenset(self._pairs[key]): all(key in broken[end] for end in self._pairs[key])
                for key in self._connected
            }
            if is_last or all(ended.values()):
                return ended
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        for key, ends in self._pairs.items():
            for end in ends:
                await self._at(end, "close", key)
