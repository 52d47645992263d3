"""The options of a Kafka that migrates from ZooKeeper to KRaft.

Time-outs of the quorum are Kafka's defaults: nine servers start and restart on a small machine during a migration.
"""

from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.options import SystemOptions, out_of_range
from fencepost.systems.kafka.server.options import LEAST

BROKERS_MAX: Final = 3
_LEAST: Final = {
    **LEAST,
    "brokers": 2,
    "tick": seconds(0.1),
    "zk_session": seconds(0.5),
    "controller_zk_session": seconds(0.5),
    "election": seconds(0.5),
    "fetch": seconds(1),
    "broker_session": seconds(0.5),
    "broker_heartbeat": seconds(0.1),
}


class BridgeOptions(SystemOptions, frozen=True, kw_only=True):
    brokers: Annotated[int, about("how many brokers there are, 2 or 3")] = 2
    tick: Annotated[Duration, about("the unit in which ZooKeeper counts time-outs")] = seconds(0.5)
    zk_session: Annotated[Duration, about("silence of a broker after which ZooKeeper ends its session")] = seconds(4)
    controller_zk_session: Annotated[
        Duration, about("silence of a KRaft controller after which ZooKeeper ends its session")
    ] = seconds(18)
    election: Annotated[Duration, about("time after which a candidate without a majority stands again")] = seconds(1)
    fetch: Annotated[Duration, about("silence of the leader after which a voter stands for election")] = seconds(2)
    append_linger: Annotated[Duration, about("time for which the leader gathers records before it writes")] = seconds(0)
    idle_interval: Annotated[Duration, about("pause between two records of an idle leader; 0s: none")] = seconds(0.5)
    broker_session: Annotated[Duration, about("silence of a broker after which KRaft fences it")] = seconds(9)
    broker_heartbeat: Annotated[Duration, about("pause between two heartbeats of a broker to KRaft")] = seconds(2)
    replica_lag: Annotated[Duration, about("time that a replica in sync may lag behind its leader")] = seconds(30)
    authorizer: Annotated[bool, about("whether servers keep ACLs; fencepost's own clients may do everything")] = False
    heap_mib: Annotated[int, about("heap of one broker or controller, in MiB")] = 256
    data_limit_mib: Annotated[int, about("room for the data of one server, in MiB")] = 256

    def refuse(self) -> Refusal | None:
        wrong = out_of_range(self, _LEAST, {"brokers": BROKERS_MAX})
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
