"""KIP-30's interfaces: what an application gets from a pluggable consensus and metadata primitive, method by method.

The names are those of the proposal, in Python's spelling. An absent value (`Option`) is None; a `Future` is awaited.
What the proposal does not say stays unsaid here: no method tells a fencing token, `update` compares nothing, nothing
is ever deleted, and listeners may miss changes. `conformance kip-30` shows what follows from that.

Source: KIP-30, "Allow for brokers to have plug-able consensus and meta data storage sub systems" (cwiki, 2015), section
Public Interfaces.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

#: `onGroupChange`: gets the ids of all members. "No guarantee" that each change is reported.
GroupListener: TypeAlias = Callable[[frozenset[str]], None]
#: `onLeaderChange`: gets who leads, None for nobody. No guarantee that each change is reported.
LeaderListener: TypeAlias = Callable[[str | None], None]
#: `valueChanged`: gets the key's value, None where there is none.
ValueListener: TypeAlias = Callable[[str, bytes | None], None]
#: `keySetChanged`: gets all keys of the namespace.
KeySetListener: TypeAlias = Callable[[str, frozenset[str]], None]


class GroupMembershipClient(Protocol):
    """A group that processes join and leave; `join` fails when another member has the id."""

    @property
    def group(self) -> str: ...

    async def init(self) -> None: ...

    async def join(self, member: str, data: bytes) -> None: ...

    async def leave(self, member: str) -> None: ...

    async def membership_list(self) -> frozenset[str]: ...

    async def membership(self) -> Mapping[str, bytes]: ...

    def add_listener(self, listener: GroupListener) -> None: ...

    def remove_listener(self, listener: GroupListener) -> None: ...

    async def close(self) -> None: ...


class LeaderElectionClient(Protocol):
    """An election for one service; `nominate` is true when the candidate leads now."""

    @property
    def service(self) -> str: ...

    async def init(self) -> None: ...

    async def get_leader(self) -> str | None: ...

    async def nominate(self, candidate: str) -> bool: ...

    async def resign(self, leader: str) -> None: ...

    def add_listener(self, listener: LeaderListener) -> None: ...

    def remove_listener(self, listener: LeaderListener) -> None: ...

    async def close(self) -> None: ...


class Storage(Protocol):
    """Values by key; `put` fails when the key is present, `update` when it is absent."""

    async def init(self) -> None: ...

    async def fetch(self, key: str) -> bytes | None: ...

    async def put(self, key: str, data: bytes) -> None: ...

    async def update(self, key: str, data: bytes) -> None: ...

    async def close(self) -> None: ...


class ListenerRegistry(Protocol):
    """Listeners to values and to sets of keys, which stay until they are removed."""

    def add_value_change_listener(self, key: str, listener: ValueListener) -> Awaitable[None]: ...

    def remove_value_change_listener(self, key: str, listener: ValueListener) -> Awaitable[None]: ...

    def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> Awaitable[None]: ...

    def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> Awaitable[None]: ...
