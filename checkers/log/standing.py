"""The name under which a guarantee of the log is judged: it depends on what the run's options promise.

With acks=all and min.insync.replicas of 2 or more an acknowledged record is on two nodes, and Kafka promises that it
stays. With less the same is asked, as a figure, under the name with "-unreplicated". Duplicates are excluded by an
idempotent producer only.
"""

from typing import Final

from fencepost.harness.verdict import Facts

DURABLE: Final = "log-durable"
STABLE: Final = "log-offsets-stable"
ORDER: Final = "log-order"
COMMITTED: Final = "log-committed-reads"
EPOCHS: Final = "log-leader-epochs"
DUPLICATES: Final = "log-no-duplicates"
ZOMBIE: Final = "zombie-broker-does-not-act"


def replicated(facts: Facts) -> bool:
    """Whether an acknowledged append of this run is on at least two nodes."""
    return bool(facts.options.get("acks", "all") == "all" and facts.options.get("min_isr", 2) >= 2)


def judged_as(base: str, facts: Facts) -> str:
    """Return the name of the guarantee `base` with this run's options."""
    if base == DUPLICATES:
        given = facts.options.get("idempotence", "auto")
        idempotent = facts.options.get("acks", "all") == "all" if given == "auto" else given == "on"
        return base if idempotent else f"{base}-without-idempotence"
    return base if replicated(facts) else f"{base}-unreplicated"
