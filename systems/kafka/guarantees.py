"""What settings take away of Kafka's promises in every mode. The promises stand in the `*guarantees.toml`."""

from collections.abc import Sequence
from typing import Final

from fencepost.harness.contract.server_settings import Settings, value_of
from fencepost.harness.runtime.node import Member

#: The guarantees that an unclean election may break. A leader that no controller reaches goes on with its followers,
#: beside the one that was elected so. What is known of groups and transactional ids is in logs as well.
_COMMITTED: Final = frozenset(
    {
        "log-durable",
        "log-offsets-stable",
        "log-order",
        "log-committed-reads",
        "log-leader-epochs",
        "zombie-broker-does-not-act",
        "leaders-are-eligible",
        "topics-keep-records",
        "group-commits-durable",
        "group-generations-fence",
        "group-one-owner",
        "transactions-durable",
        "transactions-atomic",
        "aborted-transactions-hidden",
        "transactional-producers-fenced",
        "no-hanging-transactions",
        "transforms-exactly-once",
        "one-acting-leader",
        "terms-grow",
        "no-lost-acknowledged-writes",
        "resign-ends-own-term",
    }
)


def unpromised(settings: Settings, options: object) -> dict[str, str]:
    """The guarantees that Kafka does not give with these settings, in either mode, with the reason."""
    if value_of(settings, "unclean.leader.election.enable") != "true":
        return {}
    reason = "unclean.leader.election.enable=true lets a replica without all committed records lead (KIP-106)"
    return dict.fromkeys(_COMMITTED, reason)


def broker_numbers(members: Sequence[Member]) -> dict[str, int]:
    """The brokers among the members with their ids: nodes are numbered in the order of members."""
    return {member.name: number for number, member in enumerate(members, 1) if "broker" in member.roles}
