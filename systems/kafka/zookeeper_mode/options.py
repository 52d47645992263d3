"""The options of Kafka in ZooKeeper mode that a plan can set.

With a session of 2 s and ticks of 500 ms a controller that is paused or cut off loses its znode within seconds. Kafka's
default session is 18 s.
"""

from typing import Annotated

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.options import SystemOptions
from fencepost.systems.kafka.server.options import Authorizer, DataLimit, ReplicaLag, Tick


class KafkaZkOptions(SystemOptions, frozen=True, kw_only=True):
    tick: Tick = seconds(0.5)
    zk_session: Annotated[
        Duration,
        about(
            "silence of a broker after which ZooKeeper ends its session",
            least=seconds(0.5),
            sets=("zookeeper.session.timeout.ms", "minSessionTimeout", "maxSessionTimeout"),
        ),
    ] = seconds(2)
    replica_lag: ReplicaLag = seconds(30)
    authorizer: Authorizer = False
    heap_mib: Annotated[int, about("heap of one broker, in MiB", least=128)] = 256
    data_limit_mib: DataLimit = 256

    def refuse(self) -> Refusal | None:
        wrong = super().refuse()
        if wrong is None and self.zk_session < 2 * self.tick:
            return Refusal(
                f"zk_session={self.zk_session} is below two ticks of {self.tick}",
                "ZooKeeper counts sessions in ticks; give a longer session or a shorter tick",
            )
        return wrong
