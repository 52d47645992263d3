"""The options of ZooKeeper that a plan can set.

With these defaults ZOOKEEPER-1675 shows by itself. Ticks of 500 ms and a syncLimit of 4 let a paused leader believe for
a while after it wakes that it still leads; sessions of 60 s keep its clients connected until then.
"""

from typing import Annotated

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions


class ZooKeeperOptions(SystemOptions, frozen=True, kw_only=True):
    tick: Annotated[
        Duration, about("the unit in which servers count time-outs", least=seconds(0.001), sets=("tickTime",))
    ] = seconds(0.5)
    init_limit: Annotated[
        int, about("ticks that a follower may take to join a leader", least=1, sets=("initLimit",))
    ] = 10
    sync_limit: Annotated[
        int, about("ticks that a follower may lag behind its leader", least=1, sets=("syncLimit",))
    ] = 4
    session_timeout: Annotated[
        Duration,
        about(
            "silence of a client after which its session ends",
            least=seconds(0.001),
            sets=("minSessionTimeout", "maxSessionTimeout"),
        ),
    ] = seconds(60)
    data_limit_mib: Annotated[int, about("room for the data of one server, in MiB", least=1)] = 256
