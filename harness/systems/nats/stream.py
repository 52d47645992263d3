"""The one stream that a run uses: its name, its subjects, how it is created."""

import asyncio
import json
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.systems.nats.wire.connection import Connection, answer_of

STREAM: Final = "S"
_CREATE: Final = f"$JS.API.STREAM.CREATE.{STREAM}"
#: The leader of the meta group may have just been elected, and may not know all servers yet.
_CREATE_S: Final = 20.0
_TRY_S: Final = 3.0
_PAUSE_S: Final = 0.2


async def create_stream(connection: Connection, replicas: int) -> None:
    """Create the stream with this number of replicas, asking again for 20 s. Idempotent: the same stream may exist.

    Raises Definite or Indefinite, the last refusal, when it is not there in time.
    """
    wanted = {
        "name": STREAM,
        "subjects": ["key.>", "set.>", "barrier.>"],
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "allow_direct": True,
    }
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _CREATE_S
    refused: Definite | Indefinite = Indefinite("timeout", "the stream's creation was not answered")
    while loop.time() < end_s:
        try:
            async with asyncio.timeout(_TRY_S):
                answer_of(await connection.request(_CREATE, json.dumps(wanted).encode()))
                return
        except TimeoutError:
            continue
        except (Definite, Indefinite) as error:
            refused = error
        await asyncio.sleep(_PAUSE_S)
    raise refused
