"""The options of Kafka in each mode that a plan can set."""

from typing import Annotated, TypeAlias

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.profile import SystemOptions

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
BrokerSession: TypeAlias = Annotated[
    Duration,
    about("silence of a broker after which KRaft fences it", least=seconds(0.5), sets=("broker.session.timeout.ms",)),
]
BrokerHeartbeat: TypeAlias = Annotated[
    Duration,
    about(
        "pause between two heartbeats of a broker to KRaft", least=seconds(0.1), sets=("broker.heartbeat.interval.ms",)
    ),
]
IdleInterval: TypeAlias = Annotated[
    Duration,
    about("pause between two records of an idle leader; 0s: none", sets=("metadata.max.idle.interval.ms",)),
]


def refuse_sessions(session: Duration, tick: Duration) -> Refusal | None:
    if session >= 2 * tick:
        return None
    return Refusal(
        f"a session of {session} is below two ticks of {tick}",
        "ZooKeeper counts sessions in ticks; give a longer session or a shorter tick",
    )


def refuse_heartbeats(heartbeat: Duration, session: Duration) -> Refusal | None:
    if heartbeat < session:
        return None
    return Refusal(
        f"broker_heartbeat={heartbeat} is not below broker_session={session}",
        "a broker is fenced when it has not been heard of for broker_session",
    )


class KraftOptions(SystemOptions, frozen=True, kw_only=True):
    """Time-outs are a quarter or half of Kafka's defaults, so that an election takes about a second.

    With less than 500 ms and 1 s a loaded machine with two cores never finishes an election (measured). `append_linger`
    is 0 instead of 25 ms, which makes changes several times faster.
    """

    brokers: Annotated[int, about("how many brokers there are beside the controllers, 1 to 3", least=1, most=3)] = 1
    combined: Annotated[bool, about("whether each node is both controller and broker")] = False
    election: Election = seconds(0.5)
    fetch: Fetch = seconds(1)
    append_linger: AppendLinger = seconds(0)
    idle_interval: IdleInterval = seconds(0.5)
    broker_session: BrokerSession = seconds(9)
    broker_heartbeat: BrokerHeartbeat = seconds(2)
    replica_lag: ReplicaLag = seconds(30)
    authorizer: Authorizer = False
    heap_mib: Annotated[int, about("heap of one server, in MiB", least=128)] = 256
    data_limit_mib: DataLimit = 256

    def refuse(self) -> Refusal | None:
        return super().refuse() or refuse_heartbeats(self.broker_heartbeat, self.broker_session)


class KafkaZkOptions(SystemOptions, frozen=True, kw_only=True):
    """With a session of 2 s and ticks of 500 ms a controller that is paused or cut off loses its znode within seconds.

    Kafka's default session is 18 s.
    """

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
        return super().refuse() or refuse_sessions(self.zk_session, self.tick)


class BridgeOptions(SystemOptions, frozen=True, kw_only=True):
    """Time-outs of the quorum are Kafka's defaults: nine servers start and restart on a small machine."""

    brokers: Annotated[int, about("how many brokers there are, 2 or 3", least=2, most=3)] = 2
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
    broker_session: BrokerSession = seconds(9)
    broker_heartbeat: BrokerHeartbeat = seconds(2)
    replica_lag: ReplicaLag = seconds(30)
    authorizer: Authorizer = False
    heap_mib: Annotated[int, about("heap of one broker or controller, in MiB", least=128)] = 256
    data_limit_mib: DataLimit = 256

    def refuse(self) -> Refusal | None:
        return (
            super().refuse()
            or refuse_sessions(min(self.zk_session, self.controller_zk_session), self.tick)
            or refuse_heartbeats(self.broker_heartbeat, self.broker_session)
        )
