"""What settings take away of Kafka's promises in ZooKeeper mode, which stand in `guarantees.toml`, whether a controller
that is cut off stops claiming to lead, and by when a cluster serves again.
"""

from typing import Final

from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.verdict import LeadershipBound, ResumeBound, Standing
from fencepost.systems.kafka.guarantees import unpromised as unpromised_by_brokers
from fencepost.systems.kafka.server.options import BridgeOptions, KafkaZkOptions
from fencepost.systems.zookeeper.guarantees import resume_bound as resume_bound_of_keepers
from fencepost.systems.zookeeper.guarantees import unpromised as unpromised_by_keepers
from fencepost.systems.zookeeper.options import ZooKeeperOptions

LEADERSHIP: Final = LeadershipBound(
    bound_ns=None,
    source="nothing bounds it in ZooKeeper mode: a controller learns that its session ended when it reaches ZooKeeper",
    standing=Standing.MEASURED,
    # Answers name no epoch. The epoch is the one that the node's own log names for that time, or none.
    one_leader_per_epoch=True,
    watch_ns=30_000_000_000,
)


def resume_bound(options: KafkaZkOptions | BridgeOptions) -> ResumeBound:
    """By when a cluster serves again once no fault is left; nobody promises it."""
    keepers = resume_bound_of_keepers(ZooKeeperOptions(tick=options.tick))
    return ResumeBound(
        bound_ns=keepers.bound_ns + 2 * options.zk_session,
        source=f"{keepers.source}. Then the session of a broker that is gone ends after zookeeper.session.timeout.ms, "
        "and that of a controller that was to notice it too",
    )


def unpromised(settings: Settings, options: object) -> dict[str, str]:
    """The guarantees that these settings of brokers and ZooKeepers do not give, with the reason."""
    reasons = list(unpromised_by_keepers(settings, options).values())
    metadata = dict.fromkeys(("metadata-durable", "metadata-log-agrees"), reasons[0]) if reasons else {}
    return {**unpromised_by_brokers(settings, options), **metadata}
