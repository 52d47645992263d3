"""A running cluster in the hands of the suite: sessions to its nodes, directly or by a relay, and how calls end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.conformance.probes import Probe
from fencepost.harness.conformance.wire import CountedWire, wired
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import ClientSession, Definite, Indefinite, NotSent
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.runner.readiness import await_healthy, await_ready
from fencepost.harness.runner.servers import Servers
from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.runtime.node import Node, NodeState, Place

OPEN_S: Final = 5.0
#: A request on a cluster at rest; a busy machine needs most of it.
CALL_S: Final = 15.0
HEALTHY_S: Final = 45.0
_AGAIN_S: Final = 1.0


class CallEnding(StrEnum):
    """How a call of the client ended, or that it has not."""

    OK = "ok"
    DEFINITE = "Definite"
    NOT_SENT = "NotSent"
    INDEFINITE = "Indefinite"
    WAITING = "no answer yet"
    #: An exception that the contract does not know; the harness would record `info`.
    OTHER = "another exception"


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call ended, in words too."""

    ending: CallEnding
    text: str
    value: object = None

    @property
    def denies(self) -> bool:
        """Whether the client says that nothing happened and nothing will."""
        return self.ending in (CallEnding.DEFINITE, CallEnding.NOT_SENT)


class PendingCall:
    """A call of the client under way."""

    def __init__(self, call: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(call)

    async def end(self, timeout_s: float) -> CallEnd:
        """How it ended within this time; it goes on where it has not."""
        await asyncio.wait({self._task}, timeout=timeout_s)
        if not self._task.done():
            return CallEnd(CallEnding.WAITING, f"no answer within {timeout_s:g} s")
        try:
            return CallEnd(CallEnding.OK, "ok", self._task.result())
        except NotSent as error:
            return CallEnd(CallEnding.NOT_SENT, f"NotSent ({error})")
        except Definite as error:
            return CallEnd(CallEnding.DEFINITE, f"Definite ({error})")
        except Indefinite as error:
            return CallEnd(CallEnding.INDEFINITE, f"Indefinite ({error})")
        except (Exception, asyncio.CancelledError) as error:
            return CallEnd(CallEnding.OTHER, f"{type(error).__name__}: {error}")

    async def cancel(self) -> None:
        self._task.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await self._task


class SuiteServers:
    """The servers, the probe and the keys of one suite."""

    def __init__(self, checked: CheckedPlan, servers: Servers, probe: Probe) -> None:
        self.checked, self.servers, self.probe = checked, servers, probe
        self.system: System = checked.system
        self.port = self.system.profile.listeners[CLIENT]
        started = [member for member in checked.members if not member.joins_later]
        self.nodes = {member.name: servers.runtime.nodes[member.name] for member in started}
        self.voters = tuple(member.name for member in started if member.votes)
        #: The nodes that clients connect to.
        self.serving = tuple(node for node in servers.client_nodes if node in self.nodes)
        stem = f"c{checked.plan.seed % 0xFFFF:04x}"
        self.prepared = tuple(f"{stem}x{number:02d}" for number in range(_KEYS))
        self._keys = iter(self.prepared)
        #: Keys whose change was acknowledged.
        self.acknowledged: list[str] = []

    def key(self) -> str:
        """A key that no other row uses."""
        return next(self._keys)

    def place(self, node: str) -> Place:
        return self.servers.runtime.layout[node]

    @contextlib.asynccontextmanager
    async def session(self, place: Place) -> AsyncIterator[ClientSession]:
        """A fresh session of the system's client."""
        session = await self.system.open_client(
            place, self.probe.interface, connect_timeout_s=OPEN_S, options=self.checked.system_options
        )
        try:
            yield session
        finally:
            await session.close()

    @contextlib.asynccontextmanager
    async def wired(self, node: str) -> AsyncIterator[tuple[CountedWire, ClientSession]]:
        """A fresh session through a relay."""
        async with wired(self.place(node), self.port) as (wire, place), self.session(place) as session:
            yield wire, session

    async def acknowledge(self, node: str, key: str) -> CallEnd:
        """Change a key through a session of its own."""
        async with self.session(self.place(node)) as session:
            end = await PendingCall(self.probe.change(session, key)).end(CALL_S)
        if end.ending is CallEnding.OK:
            self.acknowledged.append(key)
        return end

    async def target(self) -> str:
        """A node that accepts changes now: of some systems only the leader does; raises TimeoutError."""
        loop = asyncio.get_running_loop()
        ends_s, refused = loop.time() + HEALTHY_S, ""
        while loop.time() < ends_s:
            for node in self.serving:
                end = await PendingCall(self._accepts(node)).end(CALL_S)
                if end.ending is CallEnding.OK:
                    return node
                refused = f"{node}: {end.text}"
            await asyncio.sleep(0.1)
        raise TimeoutError(f"no node accepts a change: {refused}")

    async def _accepts(self, node: str) -> None:
        key = self.key()
        async with self.session(self.place(node)) as session:
            await self.probe.change(session, key)
        self.acknowledged.append(key)

    async def holds(self, key: str) -> bool:
        """Whether a current read shows the change; asks one node after the other until one answers."""
        refused = ""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + HEALTHY_S
        while loop.time() < ends_s:
            for node in self.serving:
                try:
                    async with asyncio.timeout(CALL_S), self.session(self.place(node)) as session:
                        return await self.probe.holds(session, key)
                except (Definite, Indefinite, TimeoutError, OSError) as error:
                    refused = str(error) or type(error).__name__
            await asyncio.sleep(0.1)
        raise TimeoutError(f"no node answers a current read: {refused}")

    async def healthy(self) -> str | None:
        """Wait until all serve again; what is wrong at the deadline, or None."""
        return await await_healthy(self.system, self.servers.runtime.layout, deadline_s=HEALTHY_S)

    async def stop(self, node: Node) -> None:
        """Pause a server and wait until no thread of it can run: on a busy machine one may still answer meanwhile."""
        await node.pause()
        async with asyncio.timeout(CALL_S):
            while (await node.evidence()).state is not NodeState.PAUSED:
                await asyncio.sleep(0.002)

    async def start_again(self, *nodes: Node) -> None:
        """Start killed nodes and wait until all serve; raises HarnessError."""
        await asyncio.gather(*(self._started_again(node) for node in nodes))

    async def _started_again(self, node: Node) -> None:
        """Start a server, once more when it ends by itself, as whatever supervises servers would.

        A broker of Kafka does not start while ZooKeeper still has the session of its earlier life.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + HEALTHY_S
        while True:
            await node.start()
            try:
                await await_ready(self.system, node, self.servers.recorder)
                return
            except HarnessError:
                if node.state is not NodeState.DEAD or loop.time() > end_s:
                    raise
            await asyncio.sleep(_AGAIN_S)


_KEYS: Final = 200
