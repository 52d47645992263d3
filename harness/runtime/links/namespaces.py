"""The network namespaces in which links are shaped and measured, for the lab and for containers.

A *field* is a namespace with a packet queue. The lab has one field, the router that every packet passes. In a container
cluster each node's own namespace is a field, for the node's share of the links (`links.packet_rules.share`).
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
    """The network namespaces of a cluster: the fields, and those of the links' ends."""

    @property
    def where(self) -> Where: ...
    @property
    def fields(self) -> Iterable[str]:
        """Return the fields that exist now."""
        ...

    @property
    def ends(self) -> Mapping[str, str]:
        """Return the address of every end that exists now, by its name."""
        ...

    def tables(self, links: Mapping[Link, Shape]) -> Mapping[str, Mapping[bytes, Shape]]:
        """Return each field's share of the shaped links, by source and target address."""
        ...

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]: ...

    async def run_in(self, name: str, function: Callable[[], T]) -> T:
        """Call `function` in the namespace of that field or end. Raises HarnessError when the namespace is gone."""
        ...


class RouterSpaces:
    """The namespaces of the lab: one field, the router, which is also the client's end."""

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
    """The namespaces of containers, which this machine enters in the one thread of `entering`."""

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
        """Use this descriptor as the node's namespace from now on; this object closes it."""
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
            raise HarnessError(f"{name} has no network namespace, because it does not run")

        def enter() -> T:
            namespaces.setns(fd, namespaces.NEWNET)
            return function()

        return await asyncio.get_running_loop().run_in_executor(self._entering, enter)
