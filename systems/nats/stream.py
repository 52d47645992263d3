"""The streams that a run uses: their names, their subjects, how they are created.

A run uses one stream for key-value storage, or one that keeps every change of watched keys, or one for each partition
of a log. The first of them is the one whose leader the faults follow (`MAIN`).
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.coordination import PAIR, Definite, Indefinite
from fencepost.systems.nats.wire.connection import Connection, answer_of

STREAM: Final = "S"
#: The stream of watched keys, and the subjects of the keys.
WATCHED: Final = "W"
WATCHED_SUBJECTS: Final = "watched.>"
#: The leader of the meta group may have just been elected, and may not know all servers yet.
_CREATE_S: Final = 20.0
_TRY_S: Final = 1.0
_PAUSE_S: Final = 0.2


def partition_stream(partition: int) -> str:
    return f"P{partition}"


def partition_subject(partition: int) -> str:
    return f"log.p{partition}"


#: The stream that a belief is about: whichever of these exists.
MAIN: Final = (STREAM, WATCHED, partition_stream(0))


async def create_streams(connection: Connection, replicas: int, keys: tuple[str, ...]) -> None:
    """Create what a workload with these keys needs: a stream for watched keys, for each partition, or for storage.

    Idempotent. Raises Definite or Indefinite, the last refusal, when a stream is not there within 20 s.
    """
    if keys == PAIR:
        await _create(
            connection, WATCHED, {"subjects": [WATCHED_SUBJECTS, "watch-barrier.>"], "num_replicas": replicas}
        )
        return
    partitions = [int(key[1:]) for key in keys if key[0] == "p" and key[1:].isdigit()]
    if not partitions:
        await _create(
            connection,
            STREAM,
            {
                "subjects": ["key.>", "set.>", "barrier.>"],
                "num_replicas": replicas,
                "max_msgs_per_subject": 1,
                "allow_direct": True,
            },
        )
    for partition in partitions:
        subjects = [partition_subject(partition)]
        await _create(connection, partition_stream(partition), {"subjects": subjects, "num_replicas": replicas})


async def _create(connection: Connection, name: str, configuration: Mapping[str, Any]) -> None:
    wanted = {"name": name, "retention": "limits", "storage": "file", **configuration}
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _CREATE_S
    refused: Definite | Indefinite = Indefinite("timeout", "the stream's creation was not answered")
    while loop.time() < end_s:
        try:
            async with asyncio.timeout(_TRY_S):
                answer_of(await connection.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(wanted).encode()))
                return
        except TimeoutError:
            continue
        except (Definite, Indefinite) as error:
            refused = error
        await asyncio.sleep(_PAUSE_S)
    raise refused
