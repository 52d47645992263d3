"""Freezing a client worker together with its keep-alives, as if its process were stopped.

All workers live in one process, so none can be stopped alone. But a worker can be made to look stopped to a server:
from one moment on nothing leaves its connections and nothing is read from them, while the kernel still acknowledges
what arrives. So every connection that a worker opens goes through the worker's `Gate`. While the gate is shut, writes
and closes are held back, reading is paused, data already read is kept, and no new connection is dialled. The worker's
own code may run until it sends or waits for an answer, as if it had been stopped there. The deadlines of its operations
and its next operation wait (see `interpreter`).

The kernel gives the proof: the bytes that it has sent on each of these connections (TCP_INFO, without
retransmissions), a count that this program cannot change.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

P = TypeVar("P", bound=asyncio.Protocol)

#: struct tcp_info of linux/tcp.h: bytes_sent and bytes_retrans, from Linux 4.19 on.
_SENT: Final = struct.Struct("QQ")
_SENT_AT: Final = 200
_TCP_INFO_BYTES: Final = 256

_GATE: "Final[ContextVar[Gate | None]]" = ContextVar("gate", default=None)


async def create_connection(factory: Callable[[], P], address: str, port: int) -> P:
    """Open a connection, through the gate of the worker whose task this is, where it has one."""
    loop = asyncio.get_running_loop()
    gate = _GATE.get()
    if gate is None:
        _, protocol = await loop.create_connection(factory, address, port)
        return protocol
    await gate.passed()
    _, gated = await loop.create_connection(lambda: _GatedProtocol(gate, factory()), address, port)
    return cast(P, gated.inner)


class Gate:
    """The one way from a worker to the network, open or shut."""

    def __init__(self) -> None:
        self._shut_by: set[int] = set()
        self._opened = asyncio.Event()
        self._opened.set()
        self._connections: set[_GatedProtocol] = set()

    @property
    def is_shut(self) -> bool:
        return bool(self._shut_by)

    def enter(self) -> None:
        """Let the connections that this task and its children open from now on go through this gate."""
        _GATE.set(self)

    async def passed(self) -> None:
        """Wait while the gate is shut."""
        while self._shut_by:
            await self._opened.wait()

    def shut(self, fault_id: int) -> None:
        self._shut_by.add(fault_id)
        self._opened.clear()
        for connection in self._connections:
            connection.pause_reading()

    def open(self, fault_id: int) -> None:
        """Open the gate when no other fault holds it shut: first send what was held back, then read. Idempotent."""
        if fault_id not in self._shut_by:
            return
        self._shut_by.discard(fault_id)
        if self._shut_by:
            return
        self._opened.set()
        for connection in list(self._connections):
            connection.release()

    def sent_bytes(self) -> dict[int, int]:
        """The bytes that the kernel has sent so far, by connection. Raises OSError where the kernel has no count."""
        return {id(connection): connection.sent_bytes() for connection in self._connections if not connection.is_lost}

    @property
    def is_connected(self) -> bool:
        return any(not connection.is_lost for connection in self._connections)

    @property
    def held_back(self) -> int:
        """The number of writes that wait."""
        return sum(connection.held_back for connection in self._connections)

    def add(self, connection: "_GatedProtocol") -> None:
        self._connections.add(connection)

    def discard(self, connection: "_GatedProtocol") -> None:
        self._connections.discard(connection)


class Freezer:
    """The gates of all workers (`harness.faults.kind.FreezableClients`)."""

    def __init__(self, workers: int) -> None:
        self.gates: Final = tuple(Gate() for _ in range(workers))

    async def freeze(self, worker: int, fault_id: int) -> None:
        self.gates[worker].shut(fault_id)
        # Code that was scheduled before gets its turn now, and finds the gate shut.
        for _ in range(3):
            await asyncio.sleep(0)

    async def thaw(self, worker: int, fault_id: int) -> None:
        self.gates[worker].open(fault_id)

    @property
    def connected(self) -> tuple[int, ...]:
        """The workers that have an open connection."""
        return tuple(number for number, gate in enumerate(self.gates) if gate.is_connected)

    def sent_bytes(self, worker: int) -> Mapping[int, int]:
        return self.gates[worker].sent_bytes()

    def held_back(self, worker: int) -> int:
        return self.gates[worker].held_back


class _GatedTransport(asyncio.Transport):
    """The transport that the client's protocol writes to; `outer` is the real one."""

    def __init__(self, outer: asyncio.Transport, gate: Gate) -> None:
        super().__init__()
        self._outer = outer
        self._gate = gate
        self._held: list[bytes] = []
        self._ending: Callable[[], None] | None = None

    @property
    def held_back(self) -> int:
        return len(self._held)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._gate.is_shut or self._held:
            if self._ending is None:
                self._held.append(bytes(data))
        else:
            self._outer.write(data)

    def close(self) -> None:
        self._end(self._outer.close)

    def abort(self) -> None:
        self._end(self._outer.abort)

    def _end(self, ending: Callable[[], None]) -> None:
        if not self._gate.is_shut:
            ending()
        elif self._ending is None:
            self._ending = ending

    def release(self) -> None:
        """Send what was held back, then close if that was held back too."""
        held, self._held = self._held, []
        aborted = self._ending == self._outer.abort
        for data in held if not aborted else ():
            self._outer.write(data)
        if self._ending is not None:
            self._ending()

    def is_closing(self) -> bool:
        return self._ending is not None or self._outer.is_closing()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._held)) + self._outer.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._outer.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._outer.get_extra_info(name, default)


class _GatedProtocol(asyncio.Protocol):
    """Stands between the real transport and the client's protocol, `inner`."""

    def __init__(self, gate: Gate, inner: asyncio.Protocol) -> None:
        self.inner: Final = inner
        self.is_lost = False
        self._gate = gate
        self._held: list[Callable[[], object]] = []
        self._outer: asyncio.Transport | None = None
        self._transport: _GatedTransport | None = None

    @property
    def held_back(self) -> int:
        return self._transport.held_back if self._transport else 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._outer = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it
        self._transport = _GatedTransport(self._outer, self._gate)
        self._gate.add(self)
        if self._gate.is_shut:
            self.pause_reading()
        self.inner.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._held or self._gate.is_shut:
            self._held.append(lambda: self.inner.data_received(data))
        else:
            self.inner.data_received(data)

    def eof_received(self) -> bool:
        if self._held or self._gate.is_shut:
            self._held.append(self._eof)
        else:
            self._eof()
        # The inner protocol decides whether to close; until then nothing may be sent, not even a FIN.
        return True

    def _eof(self) -> None:
        if not self.inner.eof_received() and self._outer is not None:
            self._outer.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        if self._held or self._gate.is_shut:
            self._held.append(lambda: self._lost(exc))
        else:
            self._lost(exc)

    def _lost(self, exc: Exception | None) -> None:
        self._gate.discard(self)
        self.inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def pause_reading(self) -> None:
        if self._outer is not None and not self._outer.is_closing():
            self._outer.pause_reading()

    def release(self) -> None:
        if self._transport is not None:
            self._transport.release()
        held, self._held = self._held, []
        for take in held:
            take()
        if self._outer is not None and not self._outer.is_closing():
            self._outer.resume_reading()

    def sent_bytes(self) -> int:
        assert self._outer is not None
        tcp_info = self._outer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        if len(tcp_info) < _SENT_AT + _SENT.size:
            raise OSError("this kernel does not count the bytes sent on a connection (Linux 4.19 does)")
        sent, again = _SENT.unpack_from(tcp_info, _SENT_AT)
        return int(sent - again)
