"""KIP-30's interfaces on the requests of a session: each class here is one recipe, whatever the store.

A recipe adds what the interface leaves out and a user cannot do without: the keep-alive of a membership, and `answer`,
what the store said to the last request beyond what the interface returns. So whoever judges a run sees positions and
epochs, and the interface stays as it was proposed: an absent value (`Option`) is None, and a `Future` is awaited.

Source: KIP-30, "Allow for brokers to have plug-able consensus and meta data storage sub systems" (cwiki, 2015), section
Public Interfaces.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from fencepost.harness.coordination.election import Granted, Memberships, Roster
from fencepost.harness.coordination.session import Definite, Indefinite, NotSent
from fencepost.harness.coordination.storage import ReadMode, Reply

LEASE_NOT_GRANTED: Final = "lease-not-granted"
NOT_A_MEMBER: Final = "not-a-member"

#: `onGroupChange`: gets the ids of all members. "No guarantee" that each change is reported.
GroupListener: TypeAlias = Callable[[frozenset[str]], None]


class KeptMembership(msgspec.Struct, frozen=True, kw_only=True):
    """What a process must remember of its own membership, so that it can renew and leave it over any connection."""

    handle: str
    ttl_ms: int


class LeasedMembership:
    """KIP-30's `GroupMembershipClient` on `Memberships`: each join has its own lease, and `leave` ends that lease.

    `leave` knows its own membership only, so it can end no other process's, though the interface passes an id alone.
    """

    def __init__(self, store: Memberships, group: str, *, ttl_ms: int, lists: ReadMode) -> None:
        self.group: Final = group
        self.memberships: dict[str, KeptMembership] = {}
        self.answer: Granted | Reply | Roster = Reply()
        self._store = store
        self._ttl_ms = ttl_ms
        self._lists = lists
        self._listeners: list[GroupListener] = []
        self._watches = False

    async def init(self) -> None:
        return

    async def join(self, member: str, data: bytes) -> None:
        """Raises `Definite("exists")` when another member has this id."""
        try:
            granted = await self._store.grant(self._ttl_ms)
        except (Definite, Indefinite) as error:
            if isinstance(error, NotSent):
                raise
            # A lease that nobody knows of holds nothing.
            raise Definite(LEASE_NOT_GRANTED, str(error)) from None
        self.answer = await self._store.enter(self.group, member, data, granted.handle)
        self.memberships[member] = KeptMembership(handle=granted.handle, ttl_ms=granted.ttl_ms)

    async def renew(self, member: str) -> int:
        """Keep the membership alive; returns for how many milliseconds. Raises `Definite("lease-expired")`."""
        self.answer = granted = await self._store.keep_alive(self._own(member).handle)
        return granted.ttl_ms

    async def leave(self, member: str) -> None:
        """Raises `Definite("lease-expired")` when the membership had ended before."""
        self.answer = await self._store.revoke(self._own(member).handle)
        del self.memberships[member]

    async def membership_list(self) -> frozenset[str]:
        return (await self._roster()).ids

    async def membership(self) -> Mapping[str, bytes]:
        return {member.id: member.data for member in (await self._roster()).members}

    def add_listener(self, listener: GroupListener) -> None:
        self._listeners.append(listener)

    def remove_listener(self, listener: GroupListener) -> None:
        self._listeners.remove(listener)

    async def deliver(self, wait_s: float) -> None:
        """Call the listeners with all ids, at once the first time, later when something changed within `wait_s`."""
        if self._watches and not await self._store.roster_changed(wait_s):
            return
        self.answer = roster = await self._store.watch_roster(self.group)
        self._watches = True
        for listener in tuple(self._listeners):
            listener(roster.ids)

    async def close(self) -> None:
        await self._store.close()

    def _own(self, member: str) -> KeptMembership:
        if member not in self.memberships:
            raise Definite(NOT_A_MEMBER)
        return self.memberships[member]

    async def _roster(self) -> Roster:
        self.answer = roster = await self._store.roster(self.group, self._lists)
        return roster
