"""Rows about requests on a cluster at rest, most of them through a relay: each has a session and a key of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from fencepost.harness.conformance.rows import SuiteRow, failed, passed
from fencepost.harness.conformance.stage import CALL_S, CallEnd, CallEnding, PendingCall, SuiteServers
from fencepost.harness.conformance.wire import CountedWire, Passing

#: How long the relay looks for a second try. Libraries that try again do so within a second as a rule.
_LOOK_S: Final = 3.0
_SENT_S: Final = 5.0
_NAMES: Final = ("dropped-request", "dropped-answer", "reset", "closed")
#: The rows that `OnTheWire` decides.
ON_THE_WIRE: Final = ("one-request", *_NAMES, "after-the-end")


async def requests(stage: SuiteServers) -> SuiteRow:
    """A change through each node that accepts one is shown by a current read of each that answers one."""
    name, refusing = "requests", {}
    accepting, reading = [], set()
    for node in stage.serving:
        key = stage.key()
        end = await stage.acknowledge(node, key)
        if end.denies or end.ending is CallEnding.INDEFINITE:
            refusing[node] = end.text
            continue
        if end.ending is not CallEnding.OK:
            return failed(name, f"a change through {node} of a cluster at rest: {end.text}")
        accepting.append(node)
        for reader in stage.serving:
            read = await _held(stage, reader, key)
            if read.ending is CallEnding.WAITING:
                # Requests of some stores (core NATS) are delivered at most once: one may be lost, not two.
                read = await _held(stage, reader, key)
            if read.ending is CallEnding.OK and read.value is True:
                reading.add(reader)
            elif not read.denies and read.ending is not CallEnding.INDEFINITE:
                shown = "did not show it" if read.ending is CallEnding.OK else f"ended: {read.text}"
                return failed(name, f"a change through {node} was acknowledged, and a current read on {reader} {shown}")
    if not accepting or not reading:
        return failed(name, f"no node accepts and shows a change: {refusing}")
    refused = "".join(f"; {node} refuses: {text}" for node, text in refusing.items())
    return passed(
        name, f"changes through {', '.join(accepting)} are read back on {', '.join(sorted(reading))}{refused}"
    )


async def _held(stage: SuiteServers, reader: str, key: str) -> CallEnd:
    """A current read of the key on this node, on a session of its own."""
    async with stage.session(stage.place(reader)) as session:
        return await PendingCall(stage.probe.holds(session, key)).end(CALL_S)


async def wrong_input(stage: SuiteServers) -> SuiteRow:
    """What the store must refuse ends Definite, and nothing changes."""
    name, key = "wrong-input", stage.key()
    target = await stage.target()
    await stage.acknowledge(target, key)
    async with stage.session(stage.place(target)) as session:
        end = await PendingCall(stage.probe.refuse(session, key)).end(CALL_S)
        again = await PendingCall(stage.probe.holds(session, key)).end(CALL_S)
    if end.ending is not CallEnding.DEFINITE:
        return failed(name, f"expected Definite, and it ended {end.text}")
    if again.value is not True:
        return failed(name, f"it ended {end.text}, and afterwards the session's read ended {again.text}")
    return passed(name, end.text)


class OnTheWire:
    """The rows that count what the client sends; `usual` is how often one request carries its key."""

    def __init__(self, stage: SuiteServers) -> None:
        self._stage = stage
        self._node = ""
        self._usual = 0
        #: What a session reads first, so that its connection is there.
        self._other = stage.key()

    @property
    def usual(self) -> int:
        """How often one request carries its key; 0 where it cannot be read."""
        return self._usual

    async def rows(self) -> list[SuiteRow]:
        """The usual request first; then all others side by side."""
        self._node = await self._stage.target()
        first = await self._one_request()
        others = (
            self._lost("dropped-request", Passing.NO_REQUESTS),
            self._lost("dropped-answer", Passing.NO_ANSWERS),
            self._ended("reset", CountedWire.reset),
            self._ended("closed", CountedWire.finish),
        )
        nested = await asyncio.gather(*(_guarded(name, row) for name, row in zip(_NAMES, others, strict=True)))
        return [first, *(row for rows in nested for row in rows)]

    async def _one_request(self) -> SuiteRow:
        name, key = "one-request", self._stage.key()
        async with self._stage.wired(self._node) as (wire, session):
            end = await PendingCall(self._stage.probe.change(session, key)).end(CALL_S)
            self._usual = wire.times(key)
            if end.ending is not CallEnding.OK:
                return failed(name, f"a change through a relay that passes everything ended {end.text}")
            if wire.connections != 1:
                return failed(name, f"the client opened {wire.connections} connections for one session")
            second = self._stage.key()
            await PendingCall(self._stage.probe.change(session, second)).end(CALL_S)
            if wire.times(second) != self._usual or wire.times(key) != self._usual:
                counts = f"{wire.times(key)} and {wire.times(second)} times"
                return failed(name, f"two changes of one kind carried their keys {counts}: one of them was sent twice")
        if not self._usual:
            return passed(name, "1 connection; its requests are not readable on the wire, so only connections count")
        return passed(name, f"1 connection; a request carries its key {_times(self._usual)}")

    async def _lost(self, name: str, passing: Passing) -> list[SuiteRow]:
        """A request or an answer that never arrives."""
        key = self._stage.key()
        async with self._stage.wired(self._node) as (wire, session):
            await PendingCall(self._stage.probe.holds(session, self._other)).end(CALL_S)
            wire.passing = passing
            call = PendingCall(self._stage.probe.change(session, key))
            await wire.await_sent(key, _SENT_S)
            end = await call.end(_LOOK_S)
            row = self._counted(name, wire, key) or await self._judged(name, key, end, passing)
            await call.cancel()
        return [row]

    async def _judged(self, name: str, key: str, end: CallEnd, passing: Passing) -> SuiteRow:
        if end.ending is CallEnding.OK:
            return failed(name, "it was acknowledged, although nothing came back")
        if passing is Passing.NO_ANSWERS and end.denies:
            return failed(name, f"it ended {end.text}, and the request had reached the server")
        if end.ending is CallEnding.NOT_SENT:
            return failed(name, f"it ended {end.text}, and the request stood on the wire")
        if end.denies and await self._stage.holds(key):
            return failed(name, f"it ended {end.text}, and a later read shows the change")
        return passed(name, f"{end.text}; sent once")

    async def _ended(self, name: str, how: Callable[[CountedWire], None]) -> list[SuiteRow]:
        """A connection that ends while a request waits for its answer, and what the session does afterwards."""
        key, later = self._stage.key(), self._stage.key()
        async with self._stage.wired(self._node) as (wire, session):
            await PendingCall(self._stage.probe.holds(session, self._other)).end(CALL_S)
            wire.passing = Passing.NO_ANSWERS
            call = PendingCall(self._stage.probe.change(session, key))
            await wire.await_sent(key, _SENT_S)
            # The server acts meanwhile; its answer is lost.
            await asyncio.sleep(0.2)
            how(wire)
            end = await call.end(_LOOK_S)
            after = await PendingCall(self._stage.probe.change(session, later)).end(_LOOK_S)
            await asyncio.sleep(1.0)
            rows = []
            if end.denies or end.ending is CallEnding.OK:
                rows.append(failed(name, f"it ended {end.text}, and the request had reached the server"))
            elif end.ending in (CallEnding.WAITING, CallEnding.OTHER):
                rows.append(failed(name, f"expected Indefinite; it ended: {end.text}"))
            else:
                rows.append(self._counted(name, wire, key) or passed(name, f"{end.text}; sent once"))
            await call.cancel()
            if name == "reset":
                rows.append(_after_the_end(after, wire, later))
        return rows

    def _counted(self, name: str, wire: CountedWire, key: str) -> SuiteRow | None:
        """A failure where the client sent more than one request, or opened another connection."""
        if wire.connections > 1:
            return failed(name, f"the client opened {wire.connections} connections by itself")
        if self._usual and wire.times(key) > self._usual:
            return failed(name, f"the request was sent {wire.times(key) // self._usual} times")
        return None


def _after_the_end(end: CallEnd, wire: CountedWire, key: str) -> SuiteRow:
    name = "after-the-end"
    if wire.connections > 1:
        return failed(name, f"the session opened {wire.connections} connections: it dials again by itself")
    if end.ending in (CallEnding.OK, CallEnding.WAITING):
        return failed(name, f"a request after the connection had ended: {end.text}")
    if wire.times(key):
        return failed(name, "the request stood on the wire although the connection had ended")
    return passed(name, f"the next request ended {end.text}; no new connection")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


async def _guarded(name: str, rows: Awaitable[list[SuiteRow]]) -> list[SuiteRow]:
    try:
        return await rows
    except Exception as error:
        return [failed(name, f"{type(error).__name__}: {error}")]
