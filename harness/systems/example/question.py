"""Asking one node of the example alone whether it leads: it answers role and term of one instant."""

from fencepost.harness.history import Claim
from fencepost.harness.systems.contract.system import Answer
from fencepost.harness.systems.example.client import Line, connect

_DIAL_S = 0.5


class ExampleQuestion:
    """`harness.systems.contract.system.Question`; a connection that ended is opened again by the next question."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._line: Line | None = None

    async def ask(self) -> Answer:
        if self._line is None or self._line.ended:
            self._line = await connect(self._host, self._port, _DIAL_S)
        told = await self._line.ask({"command": {"op": "who"}})
        return Answer(
            claims=Claim.YES if told["leads"] else Claim.NO,
            source="who",
            epoch=told["epoch"],
            leader=told["leader"] or None,
            position=told["position"],
        )

    async def close(self) -> None:
        if self._line is not None:
            self._line.close()
