"""Short questions to one node, each on a connection of its own."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from fencepost.harness.runtime.node import Place
from fencepost.systems.cassandra.configuration import CLIENT_PORT
from fencepost.systems.cassandra.wire.connection import CassandraConnection, connect

#: One attempt to ask a node.
ATTEMPT_S: Final = 2.0


@contextlib.asynccontextmanager
async def asking(place: Place) -> AsyncIterator[CassandraConnection]:
    connection = await connect(*place.dial(CLIENT_PORT), ATTEMPT_S)
    try:
        yield connection
    finally:
        connection.close()
