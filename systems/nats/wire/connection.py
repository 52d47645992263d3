"""One connection to one server: requests that are answered on an inbox of this connection's own.

The server has closed a connection when it says so (`-ERR`), and every request under way is then indefinite.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from fencepost.harness.coordination import Indefinite, connection
from fencepost.systems.nats.wire import errors
from fencepost.systems.nats.wire.frames import ControlLine, Message, frame_at, publish

_INBOX_SID: Final = 1
#: What the answer to the first PING is awaited under.
_GREETING: Final = "PONG"
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


class NatsConnection(connection.Connection):
    """An open connection; its requests and subscriptions."""

    def __init__(self, user: str = "") -> None:
        super().__init__()
        self._login = {"user": user, "pass": user} if user else {}
        self._inbox = ""
        self._number = 0
        self._subscribers: dict[int, Callable[[Message | None], None]] = {}

    async def request(self, subject: str, payload: bytes = b"", headers: Mapping[str, str] | None = None) -> Message:
        """Send one message and return its one answer.

        Raises:
            NotSent: the connection was not open.
            Indefinite: the connection ended before the answer came.
        """
        self._number += 1
        inbox = f"{self._inbox}.{self._number}"
        answer: Message = await self.ask(inbox, publish(subject, inbox, payload, headers or {}))
        return answer

    def subscribe(self, subject: str, deliver: Callable[[Message | None], None]) -> int:
        """Deliver every message of the subject, in order, then None when the connection has ended; returns its id."""
        transport = self.usable()
        sid = max(self._subscribers, default=_INBOX_SID) + 1
        self._subscribers[sid] = deliver
        transport.write(b"SUB %b %d\r\n" % (subject.encode(), sid))
        return sid

    def unsubscribe(self, sid: int) -> None:
        """End a subscription. Idempotent; what arrives later is dropped."""
        if self._subscribers.pop(sid, None) is not None and self.ended is None:
            self.usable().write(b"UNSUB %d\r\n" % sid)

    def own_subject(self, name: str) -> str:
        """A subject that no other connection uses."""
        return f"{self._inbox}-{name}"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._greeted = self.expect(_GREETING)

    async def begin(self) -> None:
        await self._greeted

    split = staticmethod(frame_at)

    def match(self, frame: Message | ControlLine) -> None:
        if isinstance(frame, ControlLine):
            self._obey(frame)
        elif frame.sid == _INBOX_SID:
            self.settle(frame.subject, frame)
        elif (deliver := self._subscribers.get(frame.sid)) is not None:
            deliver(frame)

    def _obey(self, control: ControlLine) -> None:
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
                self.usable().write(b"".join(line + b"\r\n" for line in opening))
            case "PING":
                self.usable().write(b"PONG\r\n")
            case "PONG":
                self.settle(_GREETING, None)
            case "-ERR":
                self.end(f"the server says {control.rest.decode(errors='replace').strip()}")
            case _:
                pass  # +OK, a later INFO: nothing to do

    def over(self, why: str) -> None:
        for deliver in list(self._subscribers.values()):
            deliver(None)


async def connect(address: str, port: int, timeout_s: float, user: str = "") -> NatsConnection:
    """Open a connection that the server has answered on; raises `NotSent` when that fails.

    Args:
        user: who logs in, with that word as the password too; "": whoever the server takes for one without a name.
    """
    return await connection.dial(lambda: NatsConnection(user), address, port, timeout_s)


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
