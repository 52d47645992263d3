"""The options that every Kafka has, and those of every quorum of controllers and of every ZooKeeper beside brokers."""

from typing import Annotated, TypeAlias

from fencepost.harness.base.options import Duration, about, seconds

ReplicaLag: TypeAlias = Annotated[
    Duration,
    about("time that a replica in sync may lag behind its leader", least=seconds(1), sets=("replica.lag.time.max.ms",)),
]
Authorizer: TypeAlias = Annotated[bool, about("whether servers keep ACLs; fencepost's own clients may do everything")]
DataLimit: TypeAlias = Annotated[int, about("room for the data of one server, in MiB", least=64)]

Tick: TypeAlias = Annotated[
    Duration, about("the unit in which ZooKeeper counts time-outs", least=seconds(0.1), sets=("tickTime",))
]

Election: TypeAlias = Annotated[
    Duration,
    about(
        "time after which a candidate without a majority stands again",
        least=seconds(0.5),
        sets=("controller.quorum.election.timeout.ms",),
    ),
]
Fetch: TypeAlias = Annotated[
    Duration,
    about(
        "silence of the leader after which a voter stands for election",
        least=seconds(1),
        sets=("controller.quorum.fetch.timeout.ms",),
    ),
]
AppendLinger: TypeAlias = Annotated[
    Duration,
    about("time for which the leader gathers records before it writes", sets=("controller.quorum.append.linger.ms",)),
]
IdleInterval: TypeAlias = Annotated[
    Duration,
    about("pause between two records of an idle leader; 0s: none", sets=("metadata.max.idle.interval.ms",)),
]
