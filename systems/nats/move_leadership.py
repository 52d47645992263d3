"""Asking the leader of a run's stream to step down in favour of another server: $JS.API.STREAM.LEADER.STEPDOWN.

The request is passed on to whoever leads the stream. Releases from 2.11 on take the server that shall lead next; an
earlier one refuses what it does not know, and nothing changes.
"""

import asyncio
import json
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.nats.stream import MAIN
from fencepost.systems.nats.wire import errors
from fencepost.systems.nats.wire.connection import answer_of, connect

_STEP_DOWN: Final = "$JS.API.STREAM.LEADER.STEPDOWN"


async def move_leader(address: str, port: int, to: str, timeout_s: float) -> None:
    """Ask through the server at this address that `to` lead the stream of the run.

    Raises:
        Definite: there is no such stream, or its leader refuses.
        Indefinite: nobody knows whether the leadership moved.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    connection = await connect(address, port, timeout_s)
    try:
        async with asyncio.timeout_at(deadline):
            request = json.dumps({"placement": {"preferred": to}}).encode()
            for stream in MAIN:
                try:
                    answer_of(await connection.request(f"{_STEP_DOWN}.{stream}", request))
                    return
                except Definite as refused:
                    if refused.code != errors.NO_STREAM:
                        raise
            raise Definite(errors.NO_STREAM, ", ".join(MAIN))
    except TimeoutError:
        raise Indefinite("timeout", f"not answered within {timeout_s:g} s") from None
    finally:
        connection.close()
