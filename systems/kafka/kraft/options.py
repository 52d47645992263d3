"""The options of a KRaft cluster that a plan can set.

Time-outs are a quarter or half of Kafka's defaults, so that an election takes about a second. With less than 500 ms and
1 s a loaded machine with two cores never finishes an election (measured). `append_linger` is 0 instead of 25 ms, which
makes changes several times faster.
"""

from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.options import SystemOptions, out_of_range
from fencepost.systems.kafka.server.options import LEAST

BROKERS_MAX: Final = 3
_LEAST: Final = {
    **LEAST,
    "brokers": 1,
    "election": seconds(0.5),
    "fetch": seconds(1),
    "broker_session": seconds(0.5),
    "broker_heartbeat": seconds(0.1),
}


class KraftOptions(SystemOptions, frozen=True, kw_only=True):
    brokers: Annotated[int, about("how many brokers there are beside the controllers, 1 to 3")] = 1
    combined: Annotated[bool, about("whether each node is both controller and broker")] = False
    election: Annotated[Duration, about("time after which a candidate without a majority stands again")] = seconds(0.5)
    fetch: Annotated[Duration, about("silence of the leader after which a voter stands for election")] = seconds(1)
    append_linger: Annotated[Duration, about("time for which the leader gathers records before it writes")] = seconds(0)
    idle_interval: Annotated[Duration, about("pause between two records of an idle leader; 0s: none")] = seconds(0.5)
    broker_session: Annotated[Duration, about("silence of a broker after which it is fenced")] = seconds(9)
    broker_heartbeat: Annotated[Duration, about("pause between two heartbeats of a broker")] = seconds(2)
    replica_lag: Annotated[Duration, about("time that a replica in sync may lag behind its leader")] = seconds(30)
    authorizer: Annotated[bool, about("whether servers keep ACLs; fencepost's own clients may do everything")] = False
    heap_mib: Annotated[int, about("heap of one server, in MiB")] = 256
    data_limit_mib: Annotated[int, about("room for the data of one server, in MiB")] = 256

    def refuse(self) -> Refusal | None:
        wrong = out_of_range(self, _LEAST, {"brokers": BROKERS_MAX})
        if wrong is None and self.broker_heartbeat >= self.broker_session:
            return Refusal(
                f"broker_heartbeat={self.broker_heartbeat} is not below broker_session={self.broker_session}",
                "a broker is fenced when it has not been heard of for broker_session",
            )
        return wrong
