"""The streams that a run uses: their names, their subjects, how they are created.

A run uses one stream for key-value storage, or one that keeps every change of watched keys, or one for each partition
of a log. The first of them is the one whose leader the faults follow (`MAIN`).
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite, Reply
from fencepost.systems.nats.wire import errors
from fencepost.systems.nats.wire.connection import NatsConnection, answer_of

STREAM: Final = "S"
#: The stream of watched keys, and the subjects of the keys.
WATCHED: Final = "W"
WATCHED_SUBJECTS: Final = "watched.>"
#: By stream a subject that no key has, whose writes prove that the stream has a leader now.
BARRIERS: Final = {STREAM: "barrier.b", WATCHED: "watch-barrier.b"}
#: The leader of the meta group may have just been elected, and may not know all servers yet.
_CREATE_S: Final = 20.0
_TRY_S: Final = 1.0
_PAUSE_S: Final = 0.2
_EXPECTED_SEQUENCE: Final = "Nats-Expected-Last-Subject-Sequence"


def partition_stream(partition: int) -> str:
    return f"P{partition}"


def partition_subject(partition: int) -> str:
    return f"log.p{partition}"


#: The stream that a belief is about: whichever of these exists.
MAIN: Final = (STREAM, WATCHED, partition_stream(0))


class NatsSession:
    """One connection, and the streams that an interface needs."""

    session_id: Final = None

    def __init__(self, connection: NatsConnection, replicas: int) -> None:
        self._connection = connection
        self._replicas = replicas

    async def close(self) -> None:
        self._connection.close()

    async def make_stream(self, stream: str, configuration: Mapping[str, Any]) -> None:
        """Create a stream. Idempotent. Raises Definite or Indefinite, the last refusal, if it is not there in 20 s."""
        wanted = {
            "name": stream,
            "retention": "limits",
            "storage": "file",
            "num_replicas": self._replicas,
            **configuration,
        }
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _CREATE_S
        refused: Definite | Indefinite = Indefinite("timeout", "the stream's creation was not answered")
        while loop.time() < end_s:
            try:
                async with asyncio.timeout(_TRY_S):
                    answer_of(
                        await self._connection.request(f"$JS.API.STREAM.CREATE.{stream}", json.dumps(wanted).encode())
                    )
                    return
            except TimeoutError:
                continue
            except (Definite, Indefinite) as error:
                refused = error
            await asyncio.sleep(_PAUSE_S)
        raise refused


async def publish(
    connection: NatsConnection, subject: str, value: bytes, headers: Mapping[str, str] | None = None
) -> Reply:
    position = answer_of(await connection.request(subject, value, headers))["seq"]
    return Reply(position=position, value_position=position)


async def publish_if(
    connection: NatsConnection,
    subject: str,
    value: bytes,
    sequence: int,
    otherwise: str,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Write if the subject's last message has this sequence (0: it has none); else raise `Definite(otherwise)`.

    A refusal is definite only if it names a later message: that one is committed, so every later leader knows it.
    """
    try:
        return await publish(connection, subject, value, {_EXPECTED_SEQUENCE: str(sequence), **(headers or {})})
    except Indefinite as refused:
        if refused.code == errors.WRONG_LAST_SEQUENCE and errors.number_at_end(refused) > sequence:
            raise Definite(otherwise, str(refused)) from None
        raise
