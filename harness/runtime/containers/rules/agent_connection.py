"""The harness's end of a side-car's stdin and stdout: requests with a deadline, and results of probes.

An engine that attaches to a container puts eight bytes before each output of the container: the stream and the length.
`AgentConnection` also works without them, so that tests can use a plain socket.
"""

import asyncio
import json
import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.probe_socket import SeenProbe
from fencepost.harness.runtime.network import Reach

STDOUT: Final = 1
STDERR: Final = 2
#: Stream, three zero bytes, length.
_FRAME: Final = struct.Struct(">BxxxI")
#: How much of the agent's stderr the message about its end quotes.
_LAST_LINES: Final = 20
#: An answer normally takes a millisecond; this bounds the wait on a very busy machine.
ANSWER_TIMEOUT_S: Final = 5.0

Answer = dict[str, Any]


class Frames:
    """Splits the output of an attached container, as an engine sends it, into (stream, bytes)."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._unread += data
        while len(self._unread) >= _FRAME.size:
            stream, length = _FRAME.unpack_from(self._unread)
            end = _FRAME.size + length
            if len(self._unread) < end:
                return
            frame, self._unread = self._unread[_FRAME.size : end], self._unread[end:]
            yield stream, frame


class AgentConnection(asyncio.Protocol):
    """The connection to the agent of one node; `sidecar_agent` describes the messages."""

    def __init__(self, node: str, tell: Callable[[str, SeenProbe], None], *, framed: bool) -> None:
        self._node = node
        self._tell = tell
        self._frames = Frames() if framed else None
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._last_words: deque[bytes] = deque(maxlen=_LAST_LINES)
        self._closed = False

    @property
    def node(self) -> str:
        return self._node

    def request(self, do: str, **fields: Any) -> "asyncio.Future[Answer]":
        """Write a request at once. The future raises HarnessError if the agent refuses it or ends."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        # A failed request that nobody waits for any more is not an extra error.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self._transport is None or self._transport.is_closing():
            answer.set_exception(self._ended())
            return answer
        self._number += 1
        self._waiting[self._number] = answer
        line = json.dumps({"id": self._number, "do": do, **fields}, separators=(",", ":"))
        self._transport.write(line.encode() + b"\n")
        return answer

    async def ask(self, do: str, timeout_s: float = ANSWER_TIMEOUT_S, **fields: Any) -> Answer:
        answers = await answers_of({self._node: self.request(do, **fields)}, timeout_s)
        answer = answers[self._node]
        if isinstance(answer, HarnessError):
            raise answer
        return answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass

    def data_received(self, data: bytes) -> None:
        if self._frames is None:
            self._take(data)
            return
        for stream, frame in self._frames.feed(data):
            if stream == STDERR:
                self._last_words.extend(frame.splitlines())
            else:
                self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(self._ended())

    def close(self) -> None:
        """End the agent by ending its stdin. Idempotent."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def _take(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, message: Answer) -> None:
        if "open" in message:
            address, port = message["from"]
            self._tell(self._node, SeenProbe(bytes.fromhex(message["open"]), Reach.OPEN, (address, port)))
        elif "reset" in message:
            self._tell(self._node, SeenProbe(bytes.fromhex(message["reset"]), Reach.RESET))
        else:
            answer = self._waiting.pop(message["id"], None)
            if answer is None or answer.done():
                return  # it came after its deadline
            if "error" in message:
                answer.set_exception(HarnessError(f"the side-car of {self._node} refused: {message['error']}"))
            else:
                answer.set_result(message)

    def _ended(self) -> HarnessError:
        if self._closed:
            return HarnessError(f"the connection to the side-car of {self._node} is closed")
        stderr = b"\n".join(self._last_words).decode(errors="replace")
        return HarnessError(
            f"the side-car of {self._node} has ended" + (f"; its last output:\n{stderr}" if stderr else "")
        )


async def answers_of(
    requests: "Mapping[str, asyncio.Future[Answer]]", timeout_s: float = ANSWER_TIMEOUT_S
) -> dict[str, Answer | HarnessError]:
    """Wait for all answers until one deadline; return for each the answer, or the reason why there is none."""
    if requests:
        await asyncio.wait(requests.values(), timeout=timeout_s)
    answers: dict[str, Answer | HarnessError] = {}
    for node, request in requests.items():
        if not request.done():
            request.cancel()
            answers[node] = HarnessError(f"the side-car of {node} did not answer within {timeout_s:g} s")
        elif isinstance(error := request.exception(), HarnessError):
            answers[node] = error
        else:
            answers[node] = request.result()
    return answers
