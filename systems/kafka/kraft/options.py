"""The options of a KRaft cluster that a plan can set.

Time-outs are a quarter or half of Kafka's defaults, so that an election takes about a second. With less than 500 ms and
1 s a loaded machine with two cores never finishes an election (measured). `append_linger` is 0 instead of 25 ms, which
makes changes several times faster.
"""

from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.options import SystemOptions
from fencepost.systems.kafka.server.options import (
    AppendLinger,
    Authorizer,
    DataLimit,
    Election,
    Fetch,
    IdleInterval,
    ReplicaLag,
)

BROKERS_MAX: Final = 3


class KraftOptions(SystemOptions, frozen=True, kw_only=True):
    brokers: Annotated[
        int, about("how many brokers there are beside the controllers, 1 to 3", least=1, most=BROKERS_MAX)
    ] = 1
    combined: Annotated[bool, about("whether each node is both controller and broker")] = False
    election: Election = seconds(0.5)
    fetch: Fetch = seconds(1)
    append_linger: AppendLinger = seconds(0)
    idle_interval: IdleInterval = seconds(0.5)
    broker_session: Annotated[
        Duration,
        about("silence of a broker after which it is fenced", least=seconds(0.5), sets=("broker.session.timeout.ms",)),
    ] = seconds(9)
    broker_heartbeat: Annotated[
        Duration,
        about("pause between two heartbeats of a broker", least=seconds(0.1), sets=("broker.heartbeat.interval.ms",)),
    ] = seconds(2)
    replica_lag: ReplicaLag = seconds(30)
    authorizer: Authorizer = False
    heap_mib: Annotated[int, about("heap of one server, in MiB", least=128)] = 256
    data_limit_mib: DataLimit = 256

    def refuse(self) -> Refusal | None:
        wrong = super().refuse()
        if wrong is None and self.broker_heartbeat >= self.broker_session:
            return Refusal(
                f"broker_heartbeat={self.broker_heartbeat} is not below broker_session={self.broker_session}",
                "a broker is fenced when it has not been heard of for broker_session",
            )
        return wrong
