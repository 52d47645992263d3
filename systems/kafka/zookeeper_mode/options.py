"""The options of Kafka in ZooKeeper mode that a plan can set.

With a session of 2 s and ticks of 500 ms a controller that is paused or cut off loses its znode within seconds. Kafka's
default session is 18 s.
"""

from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.options import SystemOptions, out_of_range
from fencepost.systems.kafka.server.options import LEAST

_LEAST: Final = {**LEAST, "tick": seconds(0.1), "zk_session": seconds(0.5)}


class KafkaZkOptions(SystemOptions, frozen=True, kw_only=True):
    tick: Annotated[Duration, about("the unit in which ZooKeeper counts time-outs")] = seconds(0.5)
    zk_session: Annotated[Duration, about("silence of a broker after which ZooKeeper ends its session")] = seconds(2)
    replica_lag: Annotated[Duration, about("time that a replica in sync may lag behind its leader")] = seconds(30)
    authorizer: Annotated[bool, about("whether servers keep ACLs; fencepost's own clients may do everything")] = False
    heap_mib: Annotated[int, about("heap of one broker, in MiB")] = 256
    data_limit_mib: Annotated[int, about("room for the data of one server, in MiB")] = 256

    def refuse(self) -> Refusal | None:
        wrong = out_of_range(self, _LEAST)
        if wrong is None and self.zk_session < 2 * self.tick:
            return Refusal(
                f"zk_session={self.zk_session} is below two ticks of {self.tick}",
                "ZooKeeper counts sessions in ticks; give a longer session or a shorter tick",
            )
        return wrong
