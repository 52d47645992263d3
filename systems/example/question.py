"""Asking one node of the example alone whether it leads; role and term in the answer are of the same instant."""

from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim
from fencepost.systems.example.client import Line, connect

_DIAL_S = 0.5


class ExampleQuestion:
    """The question to one node; after a connection ended, the next question opens another."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._line: Line | None = None

    async def ask(self) -> Answer:
        if self._line is None or self._line.ended:
            self._line = await connect(self._host, self._port, _DIAL_S)
        answer = await self._line.ask({"command": {"op": "who"}})
        return Answer(
            claims=Claim.YES if answer["leads"] else Claim.NO,
            source="who",
            epoch=answer["epoch"],
            leader=answer["leader"] or None,
            position=answer["position"],
        )

    async def close(self) -> None:
        if self._line is not None:
            self._line.close()
