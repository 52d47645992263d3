"""Histories of real systems that misbehaved, kept as they were recorded: a change to a checker must not lose one."""

from pathlib import Path

import msgspec
import pytest

from fencepost.harness.judging.judge import judge
from fencepost.harness.plugins.registry import confirm
from fencepost.harness.verdict import Validity

FOUND = Path(__file__).parents[1] / "histories" / "found"

#: Folder, the guarantee that is broken, the anomaly and how often, as first judged.
FINDINGS = [
    ("cassandra-5.0.9-late-effect", "serial-reads-settle", "late-effect", 3),
    ("cassandra-5.0.9-wrong-clock", "fresh-by-quorum", "stale-read", 164),
    ("cassandra-6.0-alpha2-second-append", "strict-serializable", "incompatible-order", 81),
    ("etcd-3.5.1-lost-watch-events", "watch-resumable", "lost-event", 11),
    ("etcd-3.5.1-lost-watch-events", "watch-bookmarkable", "bookmark-ahead", 594),
    ("etcd-3.5.1-live-lease-revoked", "live-lease-lives", "live-lease-revoked", 4),
    ("etcd-3.5.1-lost-writes", "no-lost-acknowledged-writes", "lost-write", 2),
    ("etcd-3.5.1-renumbered-writes", "write-positions-agree", "renumbered-write", 148),
    ("etcd-3.5.1-woken-leader-revokes", "live-lease-lives", "live-lease-revoked", 2),
    ("kafka-3.5.1-late-record", "aborted-transactions-hidden", "aborted-read", 10),
    ("kafka-3.6.0-controller-goes-on", "leader-self-fencing", "self-fencing-failed", 2),
    ("kafka-3.6.0-controller-goes-on", "topic-names-linearizable", "denied-taken-name", 21),
    ("kafka-3.6.0-migration-hangs", "migration-goes-on", "phase-late", 1),
    ("kafka-3.6.0-producer-ids-twice", "unique-producer-ids", "producer-id-given-twice", 1000),
    ("kafka-3.6.0-topics-back", "topics-stay-dropped", "dropped-topic-is-back", 3),
    ("kafka-3.6.1-old-controller", "brokers-keep-up", "left-behind", 16),
    ("kafka-3.9.2-deleted-topic-stays", "topics-stay-dropped", "dropped-topic-is-back", 1),
    ("kafka-3.9.2-half-topic", "brokers-keep-up", "left-behind", 7),
    ("kafka-3.9.2-last-replica", "log-durable", "lost-append", 49),
    ("kafka-3.9.2-migration-hangs", "migration-goes-on", "phase-late", 1),
    ("kafka-3.9.2-recreated-topic", "migration-goes-on", "phase-late", 1),
    ("nats-2.12.3-split-stream", "session-order", "write-order", 54),
    ("zookeeper-3.9.5-stale-after-sync", "fresh-after-sync", "stale-read", 8),
]


@pytest.mark.parametrize(("folder", "guarantee", "anomaly", "count"), FINDINGS)
def test_a_finding_stays_found(folder: str, guarantee: str, anomaly: str, count: int) -> None:
    history, judgement = judge(FOUND / folder)
    assert judgement.validity is Validity.INVALID
    broken = [v for v in judgement.verdicts if v.guarantee == guarantee and anomaly in v.anomalies]
    assert [v.counts[anomaly] for v in broken] == [count]
    assert broken[0].witnesses
    # The verdict as a file keeps it.
    kept = [msgspec.json.decode(msgspec.json.encode(verdict)) for verdict in judgement.verdicts]
    proofs = confirm(history, {"verdicts": kept})
    assert proofs >= sum(len(verdict.proofs) for verdict in judgement.verdicts)
    # The others have no verdict that says why it holds key by key, nor one of transactions.
    proven = ("cassandra-6.0-alpha2", "etcd-3.5.1-renumbered", "nats-2.12.3-split")
    assert bool(proofs) == folder.startswith(proven)


def test_every_kept_history_is_judged() -> None:
    assert {path.name for path in FOUND.iterdir()} == {folder for folder, *_ in FINDINGS}
