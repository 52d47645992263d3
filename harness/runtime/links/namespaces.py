"""The network namespaces of a cluster in which links are shaped and measured: of the lab, and of containers.

The lab has one field, the router that every packet passes. A container cluster has one in each node's own namespace,
with the node's share of the links (`harness.runtime.links.packet_rules.share`).
"""

import asyncio
import concurrent.futures
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.packet_rules import Addresses, Where
from fencepost.harness.runtime.linux import namespaces
from fencepost.harness.runtime.network import CLIENT, Link, Shape

T = TypeVar("T")


class Spaces(Protocol):
    """The network namespaces of a cluster: those with a queue ("fields"), and those of the links' ends."""

    @property
    def where(self) -> Where: ...
    @property
    def fields(self) -> Iterable[str]:
        """Those that are there now."""
        ...

    @property
    def ends(self) -> Mapping[str, str]:
        """The address of every end that is there now."""
        ...

    def tables(self, links: Mapping[Link, Shape]) -> Mapping[str, Mapping[bytes, Shape]]:
        """Each field's share of the shaped links, by source and target address."""
        ...

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]: ...

    async def run_in(self, name: str, function: Callable[[], T]) -> T:
        """Call `function` in the namespace of that field or end. Raises HarnessError when it is gone."""
        ...


class RouterSpaces:
    """Of the lab: one field, the router, which is the client's end too."""

    where: Final = Where.ROUTER

    def __init__(self, ends: Mapping[str, str], call: Callable[[str, Callable[[], Any]], Any]) -> None:
        self.ends = dict(ends)
        self.fields: Final = (CLIENT,)
        self._call = call
        self._keys = {name: socket.inet_aton(address) for name, address in ends.items()}
        self._names = {key: name for name, key in self._keys.items()}

    def tables(self, links: Mapping[Link, Shape]) -> Mapping[str, Mapping[bytes, Shape]]:
        return {CLIENT: {self._keys[link.source] + self._keys[link.target]: shape for link, shape in links.items()}}

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]:
        return {Link(self._names[key[:4]], self._names[key[4:]]) for key in keys}

    async def run_in(self, name: str, function: Callable[[], T]) -> T:
        made: T = self._call(name, function)
        return made


class NodeSpaces:
    """Of containers whose namespaces this machine enters, in the one thread of `entering`."""

    where: Final = Where.NODE

    def __init__(
        self,
        known: Addresses,
        nodes: Mapping[str, str],
        client: str,
        entering: concurrent.futures.ThreadPoolExecutor,
    ) -> None:
        self._known, self._nodes, self._client = known, dict(nodes), client
        self._entering = entering
        self._namespaces: dict[str, int] = {}

    @property
    def fields(self) -> list[str]:
        return list(self._namespaces)

    @property
    def ends(self) -> dict[str, str]:
        return {name: self._nodes[name] for name in self._namespaces} | {CLIENT: self._client}

    def take(self, name: str, namespace_fd: int) -> None:
        """From now on this is the node's namespace; the descriptor is ours."""
        self.forget(name)
        self._namespaces[name] = namespace_fd

    def forget(self, name: str) -> None:
        earlier = self._namespaces.pop(name, None)
        if earlier is not None:
            os.close(earlier)

    def close(self) -> None:
        for name in list(self._namespaces):
            self.forget(name)

    def tables(self, links: Mapping[Link, Shape]) -> Mapping[str, Mapping[bytes, Shape]]:
        return {name: self._known.state(links, name) for name in self._namespaces}

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]:
        return set(self._known.links(dict.fromkeys(keys), field))

    async def run_in(self, name: str, function: Callable[[], T]) -> T:
        if name == CLIENT:
            return function()
        fd = self._namespaces.get(name)
        if fd is None:
            raise HarnessError(f"{name} has no network namespace: it does not run")

        def enter() -> T:
            namespaces.setns(fd, namespaces.NEWNET)
            return function()

        return await asyncio.get_running_loop().run_in_executor(self._entering, enter)
