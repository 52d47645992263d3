"""What an operator asks of NATS while it serves: another leader of the meta group, a purge of what nobody reads."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Place
from fencepost.systems.nats.administration import ask, connected
from fencepost.systems.nats.configuration import SYSTEM_USER
from fencepost.systems.nats.stream import BARRIERS
from fencepost.systems.nats.wire import errors

_ASK_S: Final = 4.0


async def _purge(place: Place) -> str:
    """Delete the messages by which reads proved that the stream has a leader; they hold no key."""
    async with connected(place, _ASK_S) as connection:
        for stream, subject in BARRIERS.items():
            try:
                answer = await ask(connection, f"STREAM.PURGE.{stream}", {"filter": subject})
            except Definite as refused:
                if refused.code != errors.NO_STREAM:
                    raise
            else:
                return f"{answer['purged']} messages of {subject} are gone"
    raise Definite(errors.NO_STREAM, ", ".join(BARRIERS))


async def _step_down(place: Place) -> str:
    """Have the leader of the meta group, which places streams, hand over to whom it chooses."""
    async with connected(place, _ASK_S, SYSTEM_USER) as connection:
        answer = await ask(connection, "META.LEADER.STEPDOWN", {})
    return f"the meta group's leader {'stepped down' if answer.get('success') else f'answered {answer}'}"


REQUESTS: Final[Mapping[str, MaintenanceRequest]] = {"purge": _purge, "step-down": _step_down}
