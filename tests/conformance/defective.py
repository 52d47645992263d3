"""The example system with clients and servers that break the contract, each in one way: a plug-in for the suite."""

import asyncio
from dataclasses import replace

from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.contract.system import Answer, Question
from fencepost.harness.coordination import Definite, Indefinite, KeyValue, NotSent
from fencepost.harness.history import Claim
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.example.client import ExampleClient, ExampleLine, ExampleQuestion, Message, connect
from fencepost.systems.example.options import ExampleOptions
from fencepost.systems.example.system import CLIENT_PORT, ExampleSystem

_HASTY_S = 1.0


def _named(name: str) -> Profile[ExampleOptions]:
    own = ExampleSystem.profile
    fields = {field: getattr(own, field) for field in own.__dataclass_fields__}
    return Profile(**{**fields, "name": name})


class RetryingClient(ExampleClient):
    """Dials again and sends again when the connection ends, as many libraries do."""

    def __init__(self, line: ExampleLine, address: tuple[str, int]) -> None:
        super().__init__(line)
        self._address = address

    async def _ask(self, command: Message, *, plain: bool = False) -> Message:
        try:
            return await super()._ask(command, plain=plain)
        except (NotSent, Indefinite):
            self._line = await connect(*self._address, 1.0)
            return await super()._ask(command, plain=plain)


class HastyClient(ExampleClient):
    """Sends again on the same connection when no answer came for a while."""

    async def _ask(self, command: Message, *, plain: bool = False) -> Message:
        for _ in range(3):
            try:
                async with asyncio.timeout(_HASTY_S):
                    return await super()._ask(command, plain=plain)
            except TimeoutError:
                continue
        raise Indefinite("no-answer")


class DenyingClient(ExampleClient):
    """Says that nothing happened when the connection ended before the answer came."""

    async def _ask(self, command: Message, *, plain: bool = False) -> Message:
        try:
            return await super()._ask(command, plain=plain)
        except Indefinite as error:
            raise Definite("failed", str(error)) from None


class BoastfulQuestion(ExampleQuestion):
    """Says of every node that it leads."""

    async def ask(self) -> Answer:
        answer = await super().ask()
        return Answer(claims=Claim.YES, source=answer.source, epoch=answer.epoch)


class Retrying(ExampleSystem):
    profile = _named("retrying")

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: ExampleOptions | None = None
    ) -> KeyValue:
        address = place.dial(CLIENT_PORT)
        return RetryingClient(await connect(*address, connect_timeout_s), address)


class Hasty(ExampleSystem):
    profile = _named("hasty")

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: ExampleOptions | None = None
    ) -> KeyValue:
        return HastyClient(await connect(*place.dial(CLIENT_PORT), connect_timeout_s))


class Denying(ExampleSystem):
    profile = _named("denying")

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: ExampleOptions | None = None
    ) -> KeyValue:
        return DenyingClient(await connect(*place.dial(CLIENT_PORT), connect_timeout_s))


class Leaving(ExampleSystem):
    """Starts a process that leaves its session, and so survives its server."""

    profile = _named("leaving")

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: ExampleOptions, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        begin = 'setsid sleep 90 & exec "$@"'
        specs = super().specs(layout, artifacts, options, settings)
        return [replace(spec, argv=("/bin/sh", "-c", begin, "sh", *spec.argv)) for spec in specs]


class Boastful(ExampleSystem):
    profile = _named("boastful")

    def question(self, place: Place, subject: str) -> Question:
        return BoastfulQuestion(*place.dial(CLIENT_PORT))


SYSTEMS = {system.profile.name: system for system in (Retrying(), Hasty(), Denying(), Leaving(), Boastful())}
