"""What an operator asks of NATS while it serves: another leader of the meta group, a purge, a limit of streams.

Servers learn of a limit from the meta group and of messages from the stream's group, in any order. A stream that is
full refuses messages (`discard: new`); one that drops its oldest ones would take acknowledged messages away.
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.system import MaintenanceRequest
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Node
from fencepost.systems.nats.administration import NO_LIMIT, ask, connected, streams
from fencepost.systems.nats.configuration import SYSTEM_USER
from fencepost.systems.nats.stream import BARRIERS
from fencepost.systems.nats.wire import errors

_ASK_S: Final = 4.0


async def _purge(node: Node) -> str:
    """Delete the messages by which reads proved that the stream has a leader; they hold no key."""
    async with connected(node.place, _ASK_S) as connection:
        for stream, subject in BARRIERS.items():
            try:
                answer = await ask(connection, f"STREAM.PURGE.{stream}", {"filter": subject})
            except Definite as refused:
                if refused.code != errors.NO_STREAM:
                    raise
            else:
                return f"{answer['purged']} messages of {subject} are gone"
    raise Definite(errors.NO_STREAM, ", ".join(BARRIERS))


async def _step_down(node: Node) -> str:
    """Have the leader of the meta group, which places streams, hand over to whom it chooses."""
    async with connected(node.place, _ASK_S, SYSTEM_USER) as connection:
        answer = await ask(connection, "META.LEADER.STEPDOWN", {})
    return f"the meta group's leader {'stepped down' if answer.get('success') else f'answered {answer}'}"


async def _limit(node: Node) -> str:
    """Let every stream take no more messages than it has."""
    limits = []
    async with connected(node.place, _ASK_S) as connection:
        for stream in await streams(connection):
            name, messages = stream["config"]["name"], max(1, stream["state"]["messages"])
            await ask(connection, f"STREAM.UPDATE.{name}", {**stream["config"], "max_msgs": messages, "discard": "new"})
            limits.append(f"{name} is full with {messages} messages")
    if not limits:
        raise Definite(errors.NO_STREAM, "there is none to limit")
    return ", ".join(limits)


async def _no_limit(node: Node) -> str:
    async with connected(node.place, _ASK_S) as connection:
        for stream in await streams(connection):
            await ask(connection, f"STREAM.UPDATE.{stream['config']['name']}", {**stream["config"], **NO_LIMIT})
    return "no stream has a limit"


REQUESTS: Final[Mapping[str, MaintenanceRequest]] = {
    "limit": MaintenanceRequest(_limit, undo=_no_limit),
    "purge": MaintenanceRequest(_purge),
    "step-down": MaintenanceRequest(_step_down),
}
