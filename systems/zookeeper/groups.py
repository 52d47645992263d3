"""Groups on ZooKeeper: a member is the ephemeral znode `/fencepost/<group>/<id>` of a session that can be resumed.

The ids are the children of the group's znode; the data of each is read after them, so a list is made of several reads.
A list has a position only where no transaction was applied between its first and its last read. A member that went in
between is left out. The watch of a list is the one-shot watch that its getChildren sets.
"""

import asyncio
from typing import Final

from fencepost.harness.coordination import Definite, Granted, ListedMember, ReadMode, Reply, Roster
from fencepost.systems.zookeeper.storage import ROOT, ZooKeeperStorage
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.errors import CONNECTION_LOST, NO_NODE, ZooKeeperError
from fencepost.systems.zookeeper.wire.jute import HEADER_BYTES, Op
from fencepost.systems.zookeeper.wire.session import raise_outcome

_CHILDREN_CHANGED: Final = 4
#: A lost connection is seen after this long at most.
_LOOK_EVERY_S: Final = 0.1
_NOT_WATCHING: Final = "not-watching"


class ZooKeeperGroups(ZooKeeperStorage):
    """`harness.coordination.Memberships`, with one session for reads."""

    _watched: str | None = None

    async def grant(self, ttl_ms: int) -> Granted:
        return await self._leases.grant(ttl_ms)

    async def keep_alive(self, handle: str) -> Granted:
        return await self._leases.keep_alive(handle)

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        return await self._leases.attach(f"{ROOT}/{name}/{element}", handle)

    async def revoke(self, handle: str) -> Reply:
        return await self._leases.revoke(handle)

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        return await self._leases.enter(f"{ROOT}/{group}/{member}", data, handle)

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        ids, position = await self._read(Op.GET_CHILDREN, self._key(group), mode, _ids)
        return await self._with_data(group, ids, position)

    async def watch_roster(self, group: str) -> Roster:
        events = self.session.watch_events
        while not events.empty():
            events.get_nowait()
        self._watched = f"{ROOT}/{group}"
        record = wire.path_and_watch(wire.text(self._watched), True)
        ids, position = await self.session.ask(Op.GET_CHILDREN, record, _ids)
        return await self._with_data(group, ids, position)

    async def roster_changed(self, wait_s: float) -> bool:
        if self._watched is None:
            raise Definite(_NOT_WATCHING)
        events = self.session.watch_events
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while (left_s := end_s - loop.time()) > 0:
            ended = self.session.connection.ended
            if ended is not None and events.empty():
                raise CONNECTION_LOST.outcome(ended)
            try:
                async with asyncio.timeout(min(left_s, _LOOK_EVERY_S)):
                    event = await events.get()
            except TimeoutError:
                continue
            if event.kind == _CHILDREN_CHANGED and event.path == self._watched:
                return True
        return False

    async def _with_data(self, group: str, ids: list[str], position: int) -> Roster:
        """Read the data of these members, all requests in one send."""
        connection = self.session.connection
        frames, answers = b"", []
        for member in ids:
            record = wire.path_and_watch(wire.text(f"{ROOT}/{group}/{member}"), False)
            frame, answer = connection.queue(Op.GET_DATA, record, _data, _gone)
            frames += frame
            answers.append(answer)
        if frames:
            connection.send(frames)
        members, last = [], position
        for member, answer in zip(ids, answers, strict=True):
            try:
                data, czxid, last = await answer
            except ZooKeeperError as error:
                raise_outcome(error)
            if czxid is not None:
                members.append(ListedMember(member, data, czxid))
        exact = position if last == position else None
        return Roster(tuple(members), position=exact, epoch=position >> 32)


def _ids(body: bytes, zxid: int) -> tuple[list[str], int]:
    names, _ = wire.read_children(body, HEADER_BYTES)
    return sorted(names), zxid


def _data(body: bytes, zxid: int) -> tuple[bytes, int | None, int]:
    data, stat = wire.read_data(body, HEADER_BYTES)
    return data, stat.czxid, zxid


def _gone(code: int, zxid: int) -> tuple[bytes, int | None, int] | None:
    return (b"", None, zxid) if code == NO_NODE else None
