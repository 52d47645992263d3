"""The session of a broker that was killed: ZooKeeper keeps its registration until the session is over.

Until then another process with the same id ends right after its start ("node already exists and owner does not match
current session"). A process manager would start it again and again; the harness waits.

Source: KafkaZkClient.CheckedEphemeral of Kafka 2.8 to 3.9.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.zookeeper_mode.administrator import open_administrator

#: Longer than any session that an option asks for in our plans.
_LIMIT_S: Final = 60.0
_LOOK_S: Final = 0.1


async def await_end(broker: int, keepers: Sequence[Place]) -> None:
    """Return once no session holds this broker's registration, once no ZooKeeper answers, or after a minute."""
    try:
        async with asyncio.timeout(_LIMIT_S):
            administrator = await open_administrator(keepers)
            try:
                while await administrator.registered(broker):
                    await asyncio.sleep(_LOOK_S)
            finally:
                administrator.close()
    except (Definite, Indefinite, TimeoutError):
        return
