"""One TCP connection to one Kafka node: requests out, answers in, and nothing hidden from the caller.

A node answers the requests of a connection in order: it does not read the next request before the answer to the last
one has left. So answers are matched with a queue of sent requests, and the correlation id only confirms the match. One
request that hangs also blocks all requests after it, so independent requests need connections of their own. When a
caller stops waiting, its request stays in the queue and the late answer is dropped. The connection never reconnects,
never looks for another node, and never sends a request twice.

When the connection opens, the version of each API is chosen: the highest that both the node and this client know. An
API that the node does not offer is refused here (`unsupported-api`), with nothing sent. While the kernel has not
accepted the whole last request, no other one begins (`not-taken`). So for every request either no byte was handed over
(definite) or at least the first byte was.
"""

import asyncio
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from fencepost.harness.coordination import connection
from fencepost.systems.kafka.wire.codec import MalformedMessage, decode, encode, read_varint
from fencepost.systems.kafka.wire.errors import (
    CONNECTION_LOST,
    NOT_CONNECTED,
    NOT_SENT,
    NOT_TAKEN,
    UNSUPPORTED_API,
    refused,
)
from fencepost.systems.kafka.wire.messages import API_VERSIONS, Api

if TYPE_CHECKING:
    from kafka.protocol.data_container import DataContainer

Q = TypeVar("Q", bound="DataContainer")
A = TypeVar("A", bound="DataContainer")

#: A longer answer is an error of the protocol: this is above a node's own limit for a fetch (57 MB).
_FRAME_BYTES_MAX: Final = 64 << 20
#: Longer answers are not kept for comparison with the next one.
_KEPT_BYTES_MAX: Final = 512
_CLIENT_ID: Final = b"fencepost"
_LENGTH: Final = struct.Struct(">i")
#: length, API, version, correlation id, length of the client id
_HEADER: Final = struct.Struct(">ihhih")
_LENGTH_COUNTED_FROM: Final = 4


class KafkaConnection(connection.Connection):
    """A connection that `open_connection` makes."""

    not_sent = NOT_SENT
    lost = CONNECTION_LOST

    def __init__(self) -> None:
        super().__init__()
        self._offered: Mapping[int, tuple[int, int]] = {API_VERSIONS.key: API_VERSIONS.versions}
        self._features: Mapping[str, int] = {}
        self._versions: dict[str, int] = {}
        self._correlation = 0
        self._last_requests: dict[tuple[str, int], tuple[DataContainer, bytes]] = {}
        self._last_answers: dict[tuple[str, int], tuple[bytes, Any]] = {}
        #: The number of answers received, including those that nobody waited for.
        self.received = 0

    @property
    def offered(self) -> Mapping[int, tuple[int, int]]:
        """Return the lowest and highest version of every API that the node offers, by the API's number."""
        return self._offered

    @property
    def features(self) -> Mapping[str, int]:
        """Return the levels of the cluster's features, as the node knew them when the connection was opened."""
        return self._features

    @property
    def versions(self) -> Mapping[str, int]:
        """Return the version in use for each API that was requested so far."""
        return self._versions

    def request(self, api: Api[Q, A], message: Q) -> "asyncio.Future[A]":
        """Hand one request to the kernel; the future ends with the answer, or with an outcome of the table.

        Raises `Definite` when nothing was sent.
        """
        version = self._check(api)
        frame = self._frame(api, version, message)
        answer: asyncio.Future[A] = self.ask(self._correlation, frame, (api, version))
        return answer

    def post(self, api: Api[Q, A], message: Q) -> None:
        """Hand over a request that the node does not answer: produce with `acks=0`. Raises as `request` does."""
        self.usable().write(self._frame(api, self._check(api), message))

    async def begin(self) -> None:
        """Ask which APIs the node offers; raises `Definite`, since nothing else was sent."""
        request = API_VERSIONS.request(client_software_name="fencepost", client_software_version="1")
        answer = await self.request(API_VERSIONS, request)
        if answer.error_code != 0:
            raise refused(NOT_CONNECTED, f"the node refuses to name its APIs: error {answer.error_code}")
        self._offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        self._features = {feature.name: feature.max_version_level for feature in answer.finalized_features}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.usable().set_write_buffer_limits(high=0)  # uvloop then writes at once, as asyncio does

    def split(self, received: bytes, at: int) -> tuple[bytes, int] | None:
        return connection.sized(received, at, _LENGTH.size, _FRAME_BYTES_MAX)

    def match(self, frame: bytes) -> None:
        correlation = _LENGTH.unpack_from(frame)[0]
        due = next(iter(self._waiting), None)
        if due != correlation:
            raise ValueError(f"an answer to request {correlation} where {due or 'none'} was due")
        self.received += 1
        answer, (api, version) = self._waiting[correlation]
        self.settle(correlation, None if answer.done() else self._decoded(api, version, frame))

    def _check(self, api: Api[Any, Any]) -> int:
        """Return the version for this API; raise `Definite` when no request can be sent now."""
        waiting = self.usable().get_write_buffer_size()
        if waiting > 0:
            raise refused(NOT_TAKEN, f"{waiting} bytes of earlier requests wait")
        version = self._versions.get(api.name)
        if version is None or not api.versions[0] <= version <= api.versions[1]:
            version = self._versions[api.name] = settled(api, self._offered)
        return version

    def _frame(self, api: Api[Q, A], version: int, message: Q) -> bytes:
        """The bytes of a request with the next number."""
        body = self._encoded(api, version, message)
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        # A flexible header ends with its tagged fields: none.
        name = _CLIENT_ID + b"\0" if version >= api.flexible else _CLIENT_ID
        length = _HEADER.size - _LENGTH_COUNTED_FROM + len(name) + len(body)
        return _HEADER.pack(length, api.key, version, correlation, len(_CLIENT_ID)) + name + body

    def _encoded(self, api: Api[Q, A], version: int, message: Q) -> bytes:
        """Encode the message, or reuse the last bytes for the same object, such as an observer's question."""
        which = api.name, version
        previous, body = self._last_requests.get(which, (None, b""))
        if previous is not message:
            body = encode(message, version, version >= api.flexible)
            self._last_requests[which] = (message, body)
        return body

    def _decoded(self, api: Api[Q, A], version: int, body: bytes) -> A:
        """Decode the answer, or reuse the last one for the same bytes, as most answers to an observer have."""
        content = body[_LENGTH.size :]
        which = api.name, version
        before, answer = self._last_answers.get(which, (None, None))
        if content != before:
            try:
                answer = _read(api, version, body)
            except MalformedMessage as error:
                raise MalformedMessage(f"an answer that cannot be read: {error}") from None
            if len(content) <= _KEPT_BYTES_MAX:
                self._last_answers[which] = (content, answer)
        return cast(A, answer)


def settled(api: Api[Any, Any], offered: Mapping[int, tuple[int, int]]) -> int:
    """Return the highest version that both sides know; raise `Definite` when there is none."""
    low, high = api.versions
    theirs = offered.get(api.key)
    if theirs is None:
        raise refused(UNSUPPORTED_API, f"the node does not offer {api.name}")
    version = min(high, theirs[1])
    if version < max(low, theirs[0]):
        raise refused(
            UNSUPPORTED_API, f"{api.name}: the node offers {theirs[0]} to {theirs[1]}, known are {low} to {high}"
        )
    return version


def _read(api: Api[Q, A], version: int, body: bytes) -> A:
    """Decode the answer after its header; that of ApiVersions is never flexible, so that any client can read it."""
    if api.key == API_VERSIONS.key:
        code = struct.unpack_from(">h", body, _LENGTH.size)[0] if len(body) >= _LENGTH.size + 2 else 0
        if code != 0:  # a node that does not know the version answers in version 0
            return cast(A, API_VERSIONS.response(error_code=code))
        return decode(api.response, version, version >= api.flexible, body, _LENGTH.size)
    if version < api.flexible:
        return decode(api.response, version, False, body, _LENGTH.size)
    return decode(api.response, version, True, body, _behind_tags(body))


def _behind_tags(body: bytes) -> int:
    """Return the offset of the message after a flexible header, whose tagged fields are ignored."""
    try:
        count, at = read_varint(body, _LENGTH.size)
        for _ in range(count):
            _, at = read_varint(body, at)
            size, at = read_varint(body, at)
            at += size
    except IndexError:
        raise MalformedMessage("the answer ends inside its header") from None
    return at


async def open_connection(address: str, port: int, *, connect_timeout_s: float) -> KafkaConnection:
    """Connect and choose the versions; raises `Definite("not-connected")` when that fails or takes too long."""
    _ = API_VERSIONS.request  # imports the messages before the time limit begins
    return await connection.dial(KafkaConnection, address, port, connect_timeout_s, NOT_CONNECTED)
