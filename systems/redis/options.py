"""The options of Redis and of its sentinels that a plan can set."""

from typing import Annotated, Literal

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions


class RedisOptions(SystemOptions, frozen=True, kw_only=True):
    min_replicas_to_write: Annotated[
        int, about("a master in contact with fewer replicas refuses writes (min-replicas-to-write)", least=0, most=4)
    ] = 0
    min_replicas_max_lag: Annotated[
        Duration, about("a replica silent for longer does not count (min-replicas-max-lag)", least=seconds(1))
    ] = seconds(10)
    # Sentinel's own default of 30 s is longer than most runs; this is the one of its tutorial.
    down_after: Annotated[
        Duration, about("silence before a sentinel holds a server for down", least=seconds(0.5), most=seconds(600))
    ] = seconds(5)
    failover_timeout: Annotated[
        Duration, about("a failed fail-over is tried again after twice this long", least=seconds(1))
    ] = seconds(60)
    persistence: Annotated[
        Literal["everysec", "always", "rdb"],
        about("when writes are synced to disk (appendfsync); rdb: snapshots alone, as Redis is shipped"),
    ] = "everysec"
    lock_ttl: Annotated[Duration, about("time to live of a lock", least=seconds(0.1))] = seconds(30)
