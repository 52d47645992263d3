"""The example's client: one connection to one node, one JSON line for each request, no retries.

error of the node                  outcome
not-leader, cas-mismatch, exists,  definite: the node did nothing
lease-expired
leader-changed                     unknown: the next leader may commit the entry
the connection ends                unknown; not sent where it had ended before

Asking one node of the example alone whether it leads; role and term in the answer are of the same instant.
"""

import asyncio
import json
from typing import Any, Final

from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import (
    Definite,
    Granted,
    Indefinite,
    ListedMember,
    Members,
    ReadMode,
    Reply,
    Roster,
)
from fencepost.harness.coordination.connection import Connection, dial
from fencepost.harness.history import Claim

Message = dict[str, Any]


class ExampleLine(Connection):
    """One connection; answers are matched to requests by their ids."""

    _number = 0

    async def request(self, request: Message) -> Message:
        """Send a request and return its answer; raises NotSent or Indefinite when there is none."""
        self._number += 1
        answer: Message = await self.ask(self._number, json.dumps(request | {"id": self._number}).encode() + b"\n")
        return answer

    def split(self, received: bytes, at: int) -> tuple[Message, int] | None:
        end = received.find(b"\n", at)
        return None if end < 0 else (json.loads(received[at:end]), end + 1)

    def match(self, frame: Message) -> None:
        self.settle(frame["id"], frame)


async def connect(host: str, port: int, timeout_s: float) -> ExampleLine:
    """Connect; raises Definite when that fails."""
    return await dial(ExampleLine, host, port, timeout_s)


#: A watched group is listed again this often.
_POLL_S: Final = 0.05


class ExampleClient:
    """Storage, leases and groups on the example (`harness.coordination.KeyValue` and `Memberships`)."""

    def __init__(self, line: ExampleLine) -> None:
        self._line = line
        self._watched: tuple[str, Roster] | None = None

    @property
    def session_id(self) -> int | None:
        return None

    async def close(self) -> None:
        self._line.close()

    async def read(self, key: str, mode: ReadMode) -> Reply:
        return _reply(await self._ask({"op": "read", "key": key}, plain=mode is ReadMode.PLAIN))

    async def write(self, key: str, value: bytes) -> Reply:
        return _reply(await self._ask({"op": "write", "key": key, "value": value.decode()}))

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        return _reply(await self._ask({"op": "cas", "key": key, "old": old.decode(), "value": new.decode()}))

    async def create(self, key: str, value: bytes) -> Reply:
        return _reply(await self._ask({"op": "create", "key": key, "value": value.decode()}))

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        return _reply(await self._ask({"op": "write-if", "key": key, "value": value.decode(), "at": value_position}))

    async def add(self, name: str, element: int) -> Reply:
        return await self.create(f"{name}/{element}", b"1")

    async def members(self, name: str, mode: ReadMode) -> Members:
        answer = await self._ask({"op": "members", "key": name}, plain=mode is ReadMode.PLAIN)
        return Members(tuple(answer["elements"]), answer.get("position"), answer.get("epoch"))

    async def grant(self, ttl_ms: int) -> Granted:
        return _granted(await self._ask({"op": "grant", "ttl_ms": ttl_ms}))

    async def keep_alive(self, handle: str) -> Granted:
        return _granted(await self._ask({"op": "keep", "lease": handle}))

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        command = {"op": "write", "key": f"{name}/{element}", "value": "1", "lease": handle}
        return _reply(await self._ask(command))

    async def revoke(self, handle: str) -> Reply:
        answer = await self._ask({"op": "end", "lease": handle})
        return Reply(position=answer["position"], epoch=answer["epoch"])

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        command = {"op": "create", "key": f"groups/{group}/{member}", "value": data.decode(), "lease": handle}
        return _reply(await self._ask(command))

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        answer = await self._ask({"op": "roster", "key": f"groups/{group}"}, plain=mode is ReadMode.PLAIN)
        members = tuple(ListedMember(member, value.encode(), at) for member, value, at in answer["pairs"])
        return Roster(members, answer["position"], answer.get("epoch"))

    async def watch_roster(self, group: str) -> Roster:
        roster = await self.roster(group, ReadMode.PLAIN)
        self._watched = (group, roster)
        return roster

    async def roster_changed(self, wait_s: float) -> bool:
        """List the members again and again: the example calls nobody."""
        if self._watched is None:
            raise Definite("not-watching")
        group, before = self._watched
        loop = asyncio.get_running_loop()
        end_s = loop.time() + wait_s
        while (await self.roster(group, ReadMode.PLAIN)).members == before.members:
            if loop.time() + _POLL_S > end_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True

    async def _ask(self, command: Message, *, plain: bool = False) -> Message:
        answer = await self._line.request({"command": command, "plain": plain})
        if "error" in answer:
            raise (Indefinite if answer.get("unknown") else Definite)(answer["error"])
        return answer


def _granted(answer: Message) -> Granted:
    return Granted(answer["lease"], answer["ttl_ms"], answer["position"], answer["epoch"])


def _reply(answer: Message) -> Reply:
    value = answer["value"]
    return Reply(
        value=None if value is None else value.encode(),
        position=answer.get("position"),
        value_position=answer.get("value_position"),
        epoch=answer.get("epoch"),
    )


_DIAL_S = 0.5


class ExampleQuestion:
    """The question to one node; after a connection ended, the next question opens another."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._line: ExampleLine | None = None

    async def ask(self) -> Answer:
        if self._line is None or self._line.ended is not None:
            self._line = await connect(self._host, self._port, _DIAL_S)
        answer = await self._line.request({"command": {"op": "who"}})
        return Answer(
            claims=Claim.YES if answer["leads"] else Claim.NO,
            source="who",
            epoch=answer["epoch"],
            leader=answer["leader"] or None,
            position=answer["position"],
        )

    async def close(self) -> None:
        if self._line is not None:
            self._line.close()
