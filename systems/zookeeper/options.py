"""The options of ZooKeeper that a plan can set.

With these defaults ZOOKEEPER-1675 shows by itself. Ticks of 500 ms and a syncLimit of 4 let a paused leader believe for
a while after it wakes that it still leads; sessions of 60 s keep its clients connected until then.
"""

from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.options import SystemOptions, out_of_range

_LEAST: Final = {
    "tick": seconds(0.001),
    "init_limit": 1,
    "sync_limit": 1,
    "session_timeout": seconds(0.001),
    "data_limit_mib": 1,
}


class ZooKeeperOptions(SystemOptions, frozen=True, kw_only=True):
    tick: Annotated[Duration, about("the unit in which servers count time-outs")] = seconds(0.5)
    init_limit: Annotated[int, about("ticks that a follower may take to join a leader")] = 10
    sync_limit: Annotated[int, about("ticks that a follower may lag behind its leader")] = 4
    session_timeout: Annotated[Duration, about("silence of a client after which its session ends")] = seconds(60)
    data_limit_mib: Annotated[int, about("room for the data of one server, in MiB")] = 256

    def refuse(self) -> Refusal | None:
        return out_of_range(self, _LEAST)
