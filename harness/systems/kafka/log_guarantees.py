"""What Kafka promises of a log and of producer ids: the same in KRaft and in ZooKeeper mode.

An acknowledged record stays when it is on enough nodes: `acks=all` and `min.insync.replicas` of 2 or more, with unclean
leader election off (the default). With less, the same is measured under names that end in "-unreplicated". Kafka's
durability is replication, not the disk: a kill keeps the page cache, so nothing here asks for what was flushed.
"""

from typing import Final

from fencepost.harness.verdict import Guarantee, Standing

_DESIGN: Final = "Kafka documentation, Design, 4.7 Replication: availability and durability guarantees; acks, min.isr"
_WEAK: Final = "acks=1 or min.insync.replicas=1"

_PROMISES: Final = (
    (
        "log-durable",
        "an acknowledged append is in the log for ever, whoever leads",
        _DESIGN,
    ),
    (
        "log-offsets-stable",
        "an offset that was acknowledged or read holds one value for ever",
        _DESIGN + "; KIP-101 (truncation by leader epoch)",
    ),
    (
        "log-order",
        "a producer's appends keep their order; a read returns every record from the offset asked for, ascending",
        "Kafka documentation, Introduction: guarantees",
    ),
    (
        "log-committed-reads",
        "what a consumer was shown had been appended, and stays: nothing above the high watermark is shown",
        _DESIGN + " (only committed messages are given out to the consumer)",
    ),
    (
        "log-leader-epochs",
        "no append is acknowledged in an epoch after a higher one began; epochs never go back along the log",
        "KIP-101 and KIP-279 (leader epochs), KIP-497 (a leader's changes of the in-sync set are fenced by its epoch)",
    ),
    (
        "zombie-broker-does-not-act",
        "a partition leader that was superseded acknowledges nothing that is lost and shows nothing that vanishes",
        _DESIGN + "; KIP-497",
    ),
)


def _promised(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.PROMISED, text=text, source=source)


def _measured(name: str, text: str, source: str) -> Guarantee:
    return Guarantee(name=name, standing=Standing.MEASURED, text=text, source=source)


LOG_GUARANTEES: Final = (
    *(_promised(name, f"{text} (acks=all, min.insync.replicas >= 2)", source) for name, text, source in _PROMISES),
    _promised(
        "log-no-duplicates",
        "an idempotent producer's append is in the log once",
        "KIP-98; producer configuration enable.idempotence",
    ),
    *(_measured(f"{name}-unreplicated", f"{text}, with {_WEAK}", "not promised") for name, text, _ in _PROMISES),
    _measured(
        "log-no-duplicates-without-idempotence", "an append is in the log once, without idempotence", "not promised"
    ),
)

PRODUCER_ID_GUARANTEES: Final = (
    _promised(
        "unique-producer-ids",
        "no producer id is given out twice, whichever broker gives it and whoever leads",
        "KIP-98 (producer ids), KIP-730 (the controller allots blocks; in ZooKeeper mode a znode guards them)",
    ),
)
