"""Which run has a guarantee judged: the workload, its options and the faults that `fencepost list guarantees` shows.

A workload names its checkers, and the table here what each checker judges. What `Workload.guarantee` says of some
options needs no row.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from fencepost.harness.base.options import describe
from fencepost.harness.contract.leadership import leadership_of
from fencepost.harness.contract.system import System
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, workload_options

#: By checker, what it judges wherever a system states it.
JUDGES: Final[Mapping[str, tuple[str, ...]]] = {
    "freshness": ("write-positions-agree",),
    "session-order": ("session-order",),
    "late-effects": ("serial-reads-settle",),
    "set": ("no-lost-acknowledged-writes",),
    "storage": ("one-put-per-key", "own-put-is-settled", "update-loses-none", "update-needs-key"),
    "list-append": ("strict-serializable",),
    "lease": (
        *("answered-keep-alive-counts", "ended-lease-stays-ended", "expired-lease-ends", "live-lease-lives"),
        "no-keep-alive-of-the-dead",
    ),
    "group-membership": (
        *("group-listener-converges", "joined-member-listed", "leave-ends-own-membership", "member-data-belongs"),
        *("member-lists-in-order", "member-told-of-its-end", "one-member-per-id", "renewing-member-stays"),
        "silent-member-goes",
    ),
    "election": (
        *("one-acting-leader", "one-believed-leader", "resign-ends-own-term", "somebody-leads-again", "terms-grow"),
        *("unknown-campaign-is-settled", "no-lost-acknowledged-writes", "session-order"),
    ),
    "watch": (
        *("watch-atomic", "watch-before-data", "watch-bookmarkable", "watch-ordered", "watch-reliable"),
        *("watch-resumable", "watch-truthful", "watch-unique"),
    ),
    "metastore": (
        *("batches-go-on", "ended-session-is-refused", "ephemerals-belong-to-sessions", "events-before-answers"),
        *("no-orphan-children", "session-requests-in-order", "versions-count-writes"),
    ),
    "consumer-groups": (
        *("group-commits-durable", "group-generations-fence", "group-offsets-fresh", "group-one-owner"),
    ),
    "log": (
        *("log-committed-reads", "log-durable", "log-leader-epochs", "log-no-duplicates", "log-offsets-stable"),
        *("log-order", "appends-need-replicas", "log-no-duplicates-without-idempotence"),
    ),
    "zombie-brokers": ("zombie-broker-does-not-act",),
    "log-transactions": (
        *("aborted-transactions-hidden", "no-hanging-transactions", "transactional-producers-fenced"),
        *("transactions-atomic", "transactions-durable", "transforms-exactly-once"),
    ),
    "topics": ("topics-keep-records", "topics-stay-dropped"),
    "producer-ids": ("unique-producer-ids",),
    "metadata": ("epochs-never-go-back", "metadata-converges", "metadata-durable", "metadata-forward"),
    "topic-names": ("topic-names-linearizable",),
    "rejoin": ("no-disruptive-rejoin",),
    "ground-truth": ("metadata-log-agrees",),
    "snapshots": ("snapshots-are-loaded", "snapshots-match-log"),
    "metadata-listeners": ("metadata-listener-complete", "metadata-listener-order"),
    "partition-states": (
        *("partition-states-agree", "partition-states-converge", "partition-states-forward", "partition-states-fresh"),
        *("stale-broker-is-fenced", "fencing-is-told"),
        # What every run with brokers has judged.
        *("broker-fenced-in-time", "broker-self-fencing", "in-sync-changes-are-kept", "broker-states"),
        *("leaders-are-eligible", "broker-epochs", "one-broker-per-id", "eligible-replicas-kept"),
    ),
}
_UNREPLICATED: Final = "-unreplicated"
#: Options without which a checker judges something else.
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "log-no-duplicates-without-idempotence": {"idempotence": "off"},
    "metadata-listener-complete": {"listeners": 1},
    "metadata-listener-order": {"listeners": 1},
}
#: Faults other than the usual one, where only they bring about what is judged.
_MIGRATION: Final = (
    *("both-stores-agree", "brokers-keep-up", "claims-in-order", "migration-goes-on", "zookeeper-is-left"),
    "zookeeper-keeps-up",
)
_SHUTDOWN: Final = ("controlled-shutdown", "controlled-shutdown-unnoticed", "orderly-restart-unnoticed")
_NEMESES: Final = {**dict.fromkeys(_MIGRATION, "migrate:all"), **dict.fromkeys(_SHUTDOWN, "rolling:all")}
#: What every run has judged, whatever its workload, as `harness.judging.judge.ALWAYS` has the checkers.
_ALWAYS: Final = (
    *_MIGRATION,
    *("leader-self-fencing", "superseded-leader-does-not-act", "groups-keep-their-size", "client-changes-are-fenced"),
)
_ONE_LEADER: Final = "one-leader-per-epoch"


class Judged(NamedTuple):
    """A run by which a guarantee is judged; `options` are the workload's."""

    workload: str
    nemesis: str
    options: Mapping[str, Any]


def judged_by(system: System, guarantee: str, workloads: list[str]) -> Judged | None:
    """Return a run of this system that has a guarantee judged, by the first workload that does; None for none."""
    nemesis = _NEMESES.get(guarantee, "partition:leader" if system.profile.subjects else "partition")
    # First the workloads that are about the guarantee, then those that have it judged besides.
    for judges, name in itertools.product((_is_about, _has_judged), workloads):
        workload = registry.workload(name)
        for options in _variants(system, workload, _OPTIONS.get(guarantee, {})):
            if judges(system, workload, guarantee, options):
                return Judged(name, nemesis, options)
    return None


def _variants(system: System, workload: Workload[Any], fixed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The defaults, then each option with each of its choices; `fixed` options besides, where the workload has them."""
    choices = workload.choices(system)
    rows = describe(workload.defaults(system))
    if set(fixed) <= {row.name for row in rows}:
        yield fixed
        for row in rows:
            yield from ({**fixed, row.name: value} for value in choices.get(row.name, row.choices))


def _is_about(system: System, workload: Workload[Any], guarantee: str, given: Mapping[str, Any]) -> bool:
    return workload.guarantee(system, workload_options(workload, system, given)) == guarantee


def _has_judged(system: System, workload: Workload[Any], guarantee: str, given: Mapping[str, Any]) -> bool:
    options = workload_options(workload, system, given)
    if guarantee in _ALWAYS:
        return True
    if guarantee == _ONE_LEADER:
        return leadership_of(system, system.profile.options()).one_leader_per_epoch
    if guarantee.endswith(_UNREPLICATED) != workload.guarantee(system, options).endswith(_UNREPLICATED):
        return False
    guarantees = {each for checker in workload.checkers(system, options) for each in JUDGES.get(checker, ())}
    # Every run with brokers has these judged.
    guarantees |= set(_SHUTDOWN) if "partition-states" in workload.judges else set()
    return guarantee.removesuffix(_UNREPLICATED) in guarantees
