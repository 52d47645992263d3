"""The options of NATS that a plan can set. Elections (4 to 9 s) and heartbeats (1 s) are compiled into the server."""

from typing import Annotated

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions


class NatsOptions(SystemOptions, frozen=True, kw_only=True):
    replicas: Annotated[int, about("replicas of the stream, at most as many as nodes", least=1, most=5)] = 3
    sync_interval: Annotated[
        Duration,
        about(
            "pause between two fsyncs of the stream; 0s: before each answer",
            sets=("jetstream.sync_interval", "jetstream.sync"),
        ),
    ] = seconds(120)

    def refuse(self) -> Refusal | None:
        wrong = super().refuse()
        if wrong is not None:
            return wrong
        if self.replicas % 2 == 0:
            return Refusal(f"replicas={self.replicas} is even", "choose 1, 3 or 5")
        return None
