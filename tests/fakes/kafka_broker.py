"""A Kafka node on loopback that answers as a test tells it, in Kafka's own bytes.

    async with node(lambda asked: InitProducerIdResponse(producer_id=7)) as fake:
        client = await open_node("127.0.0.1", fake.port, connect_timeout_s=1)

An answer is a message, raw bytes that are sent as they are, or one of the words below. What was asked is kept. Each
connection is answered in order, as a real node does it.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata.api_versions import ApiVersionsResponse

from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.codec import decode, encode
from fencepost.systems.kafka.wire.messages import ADD_RAFT_VOTER, FETCH_LOG, FETCH_SNAPSHOT, REMOVE_RAFT_VOTER, Api

#: Those that a quorum is asked; `tests.systems` holds them against Kafka's own definitions.
OF_THE_QUORUM: Final = (FETCH_LOG, FETCH_SNAPSHOT, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER)
APIS: Final[Mapping[int, Api[Any, Any]]] = {
    api.key: api for api in vars(messages).values() if isinstance(api, Api) and api not in OF_THE_QUORUM
}
#: What each kind of node offers, as far as roles are told by it.
CONTROLLER: Final = {52: (0, 2)}
BROKER: Final[Mapping[int, tuple[int, int]]] = {}
ZOOKEEPER_BROKER: Final = {6: (0, 8)}

SILENCE: Final = "silence"
CLOSE: Final = "close"
RESET: Final = "reset"


class Asked(NamedTuple):
    """One request as it came."""

    api: Api[Any, Any]
    version: int
    correlation: int
    message: Any


Answer = DataContainer | bytes | str
Answers = Callable[[Asked], Answer]


class FakeNode:
    """What a test sees of it."""

    def __init__(self, answers: Answers, offered: Mapping[int, tuple[int, int]]) -> None:
        self.answers = answers
        self.offered = offered
        self.asked: list[Asked] = []
        self.connections = 0
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                length = struct.unpack(">i", await reader.readexactly(4))[0]
                asked = read_request(await reader.readexactly(length))
                if asked.api.key == messages.API_VERSIONS.key and self.offered:
                    writer.write(answer_frame(asked, self._versions()))
                    continue
                self.asked.append(asked)
                answer = self.answers(asked)
                if isinstance(answer, DataContainer):
                    answer = answer_frame(asked, answer)
                if answer == SILENCE:
                    continue
                if answer == CLOSE:
                    break
                if answer == RESET:
                    writer.transport.abort()
                    break
                assert isinstance(answer, bytes)
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.offered.items()
            ]
        )


def read_request(body: bytes) -> Asked:
    key, version, correlation, name_length = struct.unpack_from(">hhih", body)
    api = APIS[key]
    flexible = version >= api.flexible
    at = struct.calcsize(">hhih") + name_length + flexible
    assert body[10 : 10 + name_length] == b"fencepost"
    return Asked(api, version, correlation, decode(api.request, version, flexible, body, at))


def answer_frame(asked: Asked, answer: DataContainer, correlation: int | None = None) -> bytes:
    """The bytes of an answer, with a correlation id of its own choice if asked to."""
    flexible = asked.version >= asked.api.flexible
    header = struct.pack(">i", asked.correlation if correlation is None else correlation)
    if flexible and asked.api.key != messages.API_VERSIONS.key:
        header += b"\0"
    body = header + encode(answer, asked.version, flexible)
    return struct.pack(">i", len(body)) + body


def everything(role: Mapping[int, tuple[int, int]] = BROKER) -> dict[int, tuple[int, int]]:
    """Every API that is known here, in every version that is."""
    return {key: api.versions for key, api in APIS.items()} | dict(role)


@asynccontextmanager
async def node(answers: Answers, offered: Mapping[int, tuple[int, int]] | None = None) -> AsyncIterator[FakeNode]:
    """A node on loopback; with `offered` empty ApiVersions is left to `answers` too."""
    fake = FakeNode(answers, everything() if offered is None else offered)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    fake.port = server.sockets[0].getsockname()[1]
    try:
        yield fake
    finally:
        server.close()
        for writer in fake.writers:
            writer.close()
        await server.wait_closed()
