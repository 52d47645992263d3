"""One connection to one server: requests that are answered on an inbox of this connection's own.

Nothing reconnects, retries or queues: a request is sent only while the connection is open, and gets one answer or none.
There are no time-outs here: the caller cancels a request at its own deadline. The server has closed a connection when
it says so (`-ERR`), and every request under way is then indefinite.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.client_gate import create_connection
from fencepost.systems.nats.wire import errors
from fencepost.systems.nats.wire.frames import Control, Frames, Message, publish

_INBOX_SID: Final = 1
#: Answers come with headers, and a request that nobody is subscribed to is answered at once by status 503.
_CONNECT: Final = {
    "verbose": False,
    "pedantic": False,
    "lang": "fencepost",
    "version": "1",
    "protocol": 1,
    "headers": True,
    "no_responders": True,
}


class Connection(asyncio.Protocol):
    """An open connection; `shut` says why it is no longer one."""

    def __init__(self, user: str = "") -> None:
        self._login = {"user": user, "pass": user} if user else {}
        self.shut: str | None = None
        self._transport: asyncio.Transport | None = None
        self._frames = Frames()
        self._inbox = ""
        self._number = 0
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._subscribers: dict[int, Callable[[Message | None], None]] = {}
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def request(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Message:
        """Send one message and return its one answer.

        Raises:
            NotSent: the connection was not open.
            Indefinite: the connection ended before the answer came.
        """
        transport = self._open_transport()
        self._number += 1
        inbox = f"{self._inbox}.{self._number}"
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[inbox] = future
        try:
            transport.write(publish(subject, inbox, payload, headers or {}))
            return await future
        finally:
            self._waiting.pop(inbox, None)

    def subscribe(self, subject: str, deliver: Callable[[Message | None], None]) -> int:
        """Deliver every message of the subject, in order, then None when the connection has ended; returns its id."""
        transport = self._open_transport()
        sid = max(self._subscribers, default=_INBOX_SID) + 1
        self._subscribers[sid] = deliver
        transport.write(b"SUB %b %d\r\n" % (subject.encode(), sid))
        return sid

    def unsubscribe(self, sid: int) -> None:
        """End a subscription. Idempotent; what arrives later is dropped."""
        if self._subscribers.pop(sid, None) is not None and self.shut is None and self._transport is not None:
            self._transport.write(b"UNSUB %d\r\n" % sid)

    def own_subject(self, name: str) -> str:
        """A subject that no other connection uses."""
        return f"{self._inbox}-{name}"

    def close(self) -> None:
        self._end(errors.CLOSED)
        if self._transport is not None:
            self._transport.abort()

    def _open_transport(self) -> asyncio.Transport:
        if self.shut is not None or self._transport is None or not self.opened.done():
            raise NotSent(errors.NOT_CONNECTED, self.shut or "not open yet")
        return self._transport

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                if isinstance(frame, Message):
                    self._deliver(frame)
                else:
                    self._obey(frame)
        except ValueError as error:
            self._end(f"{errors.MALFORMED}: {error}")
            if self._transport is not None:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else "the server closed the connection")

    def _deliver(self, message: Message) -> None:
        if message.sid != _INBOX_SID:
            deliver = self._subscribers.get(message.sid)
            if deliver is not None:
                deliver(message)
            return
        future = self._waiting.get(message.subject)
        if future is not None and not future.done():
            future.set_result(message)

    def _obey(self, control: Control) -> None:
        assert self._transport is not None
        match control.word:
            case "INFO" if not self._inbox:
                hello = json.loads(control.rest)
                # Unique among all connections of the cluster, and the same words for the same server and connection.
                self._inbox = f"_INBOX.{hello['server_id']}.{hello['client_id']}"
                opening = (
                    b"CONNECT " + json.dumps(_CONNECT | self._login).encode(),
                    b"SUB %b.* %d" % (self._inbox.encode(), _INBOX_SID),
                    b"PING",
                )
                self._transport.write(b"".join(line + b"\r\n" for line in opening))
            case "PING":
                self._transport.write(b"PONG\r\n")
            case "PONG" if not self.opened.done():
                self.opened.set_result(None)
            case "-ERR":
                self._end(f"the server says {control.rest.decode(errors='replace').strip()}")
                self._transport.close()
            case _:
                pass  # +OK, a later INFO: nothing to do

    def _end(self, why: str) -> None:
        if self.shut is not None:
            return
        self.shut = why
        if not self.opened.done():
            self.opened.set_exception(Definite("refused", why))
            self.opened.exception()  # counts as seen: the caller may have been cancelled
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Indefinite(errors.CONNECTION_LOST, why))
        for deliver in list(self._subscribers.values()):
            deliver(None)


async def connect(address: str, port: int, timeout_s: float, user: str = "") -> Connection:
    """Open a connection that the server has answered on; raises `Definite` when that fails.

    Args:
        user: who logs in, with that word as the password too; "": whoever the server takes for one without a name.
    """
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            connection = await create_connection(lambda: Connection(user), address, port)
            await asyncio.shield(connection.opened)
            return connection
    except TimeoutError:
        error: Definite = Definite("open-timeout", f"no answer within {timeout_s:g} s")
    except OSError as refused:
        error = Definite("refused", str(refused))
    except Definite as refused:
        error = refused
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    if connection is not None:
        connection.close()
    raise error


def answer_of(message: Message) -> dict[str, Any]:
    """The JSON object of JetStream's answer; raises the outcome of a refusal."""
    if message.status >= 400 or not message.payload:
        raise errors.of_status(message.status, message.headers.get("description", ""))
    answer = json.loads(message.payload)
    if not isinstance(answer, dict):
        raise Indefinite(errors.MALFORMED, message.payload[:80].decode(errors="replace"))
    if "error" in answer:
        error = answer["error"]
        raise errors.of_error(int(error.get("err_code", 0)), str(error.get("description", "")))
    return answer
