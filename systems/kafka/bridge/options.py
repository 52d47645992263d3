"""The options of a Kafka that migrates from ZooKeeper to KRaft.

Time-outs of the quorum are Kafka's defaults: nine servers start and restart on a small machine during a migration.
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
    Tick,
)

BROKERS_MAX: Final = 3


class BridgeOptions(SystemOptions, frozen=True, kw_only=True):
    brokers: Annotated[int, about("how many brokers there are, 2 or 3", least=2, most=BROKERS_MAX)] = 2
    tick: Tick = seconds(0.5)
    zk_session: Annotated[
        Duration,
        about(
            "silence of a broker after which ZooKeeper ends its session",
            least=seconds(0.5),
            sets=("zookeeper.session.timeout.ms", "minSessionTimeout"),
        ),
    ] = seconds(4)
    controller_zk_session: Annotated[
        Duration,
        about(
            "silence of a KRaft controller after which ZooKeeper ends its session",
            least=seconds(0.5),
            sets=("maxSessionTimeout",),
        ),
    ] = seconds(18)
    election: Election = seconds(1)
    fetch: Fetch = seconds(2)
    append_linger: AppendLinger = seconds(0)
    idle_interval: IdleInterval = seconds(0.5)
    broker_session: Annotated[
        Duration,
        about(
            "silence of a broker after which KRaft fences it", least=seconds(0.5), sets=("broker.session.timeout.ms",)
        ),
    ] = seconds(9)
    broker_heartbeat: Annotated[
        Duration,
        about(
            "pause between two heartbeats of a broker to KRaft",
            least=seconds(0.1),
            sets=("broker.heartbeat.interval.ms",),
        ),
    ] = seconds(2)
    replica_lag: ReplicaLag = seconds(30)
    authorizer: Authorizer = False
    heap_mib: Annotated[int, about("heap of one broker or controller, in MiB", least=128)] = 256
    data_limit_mib: DataLimit = 256

    def refuse(self) -> Refusal | None:
        wrong = super().refuse()
        if wrong is None and min(self.zk_session, self.controller_zk_session) < 2 * self.tick:
            return Refusal(
                f"a session is shorter than two ticks of {self.tick}",
                "ZooKeeper counts sessions in ticks; give a longer session or a shorter tick",
            )
        if wrong is None and self.broker_heartbeat >= self.broker_session:
            return Refusal(
                f"broker_heartbeat={self.broker_heartbeat} is not below broker_session={self.broker_session}",
                "a broker is fenced when it has not been heard of for broker_session",
            )
        return wrong
