"""Every fake with its planted bugs, by workload: what must be found, and what a correct one shows.

A workload of the registry has a line here. `run` makes the history of a bug (None: of the correct fake) for a seed,
`judge` gives what the workload's own checkers say of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from fencepost.campaigns.kip import metastore_checker
from fencepost.checkers import leases, membership
from fencepost.checkers.elections import elections
from fencepost.harness.history import History
from fencepost.harness.verdict import Verdict
from fencepost.systems.kafka.checkers import brokers, groups, producer_ids, topics
from fencepost.systems.kafka.checkers.metadata import check as check_metadata
from fencepost.systems.kafka.checkers.metadata import listeners, partition_states, snapshots, topic_names
from tests.fakes import (
    catalogue,
    election_store,
    group_store,
    id_store,
    kept_brokers,
    lease_store,
    list_store,
    log_broker,
    member_store,
    meta_store,
    metadata_store,
    partition_store,
    topic_store,
    transaction_broker,
    transaction_runs,
    transaction_store,
    watch_store,
)
from tests.fakes.log_runs import judge_log, run_log
from tests.fakes.runs import judge_fake, run_fake
from tests.fakes.watch_runs import judge_watch, run_watch


class Planted(NamedTuple):
    """The bugs of one fake, and how it is run and judged; `unkept` are guarantees that no correct store keeps.

    `named` are the anomalies by which the tests of the fake's own workload find its bugs.
    """

    bugs: Sequence[str]
    run: Callable[[str | None, int], History]
    judge: Callable[[History, str | None], Sequence[Verdict]]
    unkept: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()


def _named(wanted: Iterable[str | Collection[str]]) -> frozenset[str]:
    """The names of these anomalies, which may stand behind the name of their checker."""
    each = ([found] if isinstance(found, str) else found for found in wanted)
    return frozenset(name.rpartition(":")[2] for names in each for name in names)


#: Leases and sessions do not keep a stalled client from believing.
_BELIEVED: Final = frozenset({"one-believed-leader", "lock-mutual-exclusion"})
#: Faults of a correct store, by its seed.
_FAULTS: Final[tuple[tuple[str, ...], ...]] = ((), ("pause",), ("kill",))


def _run_store(workload: str, bug: str | None, seed: int) -> History:
    return run_fake(workload, bug, seed, faults=None if bug else _FAULTS[seed % len(_FAULTS)])


def _stores(workload: str) -> Planted:
    return Planted(
        bugs=[name for name, bug in catalogue.BUGS.items() if bug.workload == workload],
        run=partial(_run_store, workload),
        judge=lambda history, bug: judge_fake(history, workload, bug).verdicts,
        unkept=_BELIEVED,
        named=_named(bug.anomalies for bug in catalogue.BUGS.values() if bug.workload == workload),
    )


def _watch_judged(history: History, bug: str | None) -> Sequence[Verdict]:
    flavour, options = (watch_store.BUGS[bug][1], watch_store.BUGS[bug][2]) if bug is not None else ("history", {})
    return judge_watch(history, flavour=flavour, **options).verdicts


FAKES: Final[Mapping[str, Sequence[Planted]]] = {
    "consumer-groups": (
        Planted(
            bugs=tuple(group_store.BUGS),
            named=_named(bug[-1] for bug in group_store.BUGS.values()),
            run=group_store.run_fake_groups,
            judge=lambda history, bug: groups.check(history, group_store.FACTS),
        ),
    ),
    "election": (
        Planted(
            bugs=tuple(election_store.BUGS),
            named=_named(bug[-1] for bug in election_store.BUGS.values()),
            run=election_store.run_fake_election,
            judge=lambda history, bug: elections.check(history, election_store.facts()),
            unkept=_BELIEVED,
        ),
        Planted(
            bugs=tuple(transaction_broker.BUGS),
            named=_named(bug[-1] for bug in transaction_broker.BUGS.values()),
            run=transaction_runs.run_transactions,
            judge=lambda history, bug: elections.check(history, transaction_runs.facts()),
            unkept=_BELIEVED,
        ),
    ),
    "group-membership": (
        Planted(
            bugs=tuple(member_store.BUGS),
            named=_named(bug[-1] for bug in member_store.BUGS.values()),
            run=member_store.run_fake_groups,
            judge=lambda history, bug: membership.check(history, member_store.FACTS),
            # Time ends the membership of a process that cannot be told.
            unkept=frozenset({"member-told-of-its-end"}),
        ),
    ),
    "lease": (
        Planted(
            bugs=tuple(lease_store.BUGS),
            named=_named(bug[-1] for bug in lease_store.BUGS.values()),
            run=lease_store.run_fake_leases,
            judge=lambda history, bug: leases.check(history, lease_store.facts()),
        ),
    ),
    "list-append": (
        Planted(
            bugs=tuple(list_store.BUGS),
            named=_named(bug[-1] for bug in list_store.BUGS.values()),
            run=list_store.run_fake_lists,
            judge=lambda history, bug: list_store.judge_lists(history),
        ),
    ),
    "lock": (_stores("lock"),),
    "log": (
        Planted(
            bugs=tuple(log_broker.BUGS),
            named=_named(bug[-1] for bug in log_broker.BUGS.values()),
            run=run_log,
            judge=lambda history, bug: judge_log(history).verdicts,
        ),
    ),
    "log-transactions": (
        Planted(
            bugs=tuple(transaction_store.BUGS),
            named=_named(bug[-1] for bug in transaction_store.BUGS.values()),
            run=transaction_store.run_fake_transactions,
            judge=lambda history, bug: transaction_store.judge_transactions(history),
        ),
    ),
    "metadata": (
        Planted(
            bugs=tuple(metadata_store.BUGS),
            named=_named(bug[-1] for bug in metadata_store.BUGS.values()),
            run=metadata_store.run_fake_metadata,
            judge=lambda history, bug: [
                *check_metadata(history, metadata_store.FACTS),
                *topic_names.check(history, metadata_store.FACTS),
                *snapshots.check(history, metadata_store.FACTS),
                *listeners.check(history, metadata_store.FACTS),
            ],
        ),
    ),
    "metastore": (
        Planted(
            bugs=tuple(meta_store.BUGS),
            named=_named(bug[-1] for bug in meta_store.BUGS.values()),
            run=meta_store.run_fake_metastore,
            judge=lambda history, bug: metastore_checker.check(history, meta_store.FACTS),
        ),
    ),
    "partition-states": (
        Planted(
            bugs=tuple(partition_store.BUGS),
            named=_named(bug[-1] for bug in partition_store.BUGS.values()),
            run=partition_store.run_fake_partitions,
            judge=lambda history, bug: partition_states.check(history, partition_store.FACTS),
            unkept=frozenset({"partition-states-fresh"}),
        ),
        Planted(
            bugs=tuple(kept_brokers.BUGS),
            run=kept_brokers.run_fake_brokers,
            judge=lambda history, bug: brokers.check(history, kept_brokers.FACTS),
        ),
    ),
    "producer-ids": (
        Planted(
            bugs=tuple(id_store.BUGS),
            named=_named(bug[-1] for bug in id_store.BUGS.values()),
            run=id_store.run_fake_ids,
            judge=lambda history, bug: producer_ids.check(history, id_store.FACTS),
        ),
    ),
    # The interface compares nothing, so no store keeps an update behind it from being lost.
    "storage": (_stores("storage")._replace(unkept=frozenset({"update-loses-none"})),),
    "topics": (
        Planted(
            bugs=tuple(topic_store.BUGS),
            named=_named(bug[-1] for bug in topic_store.BUGS.values()),
            run=topic_store.run_fake_topics,
            judge=lambda history, bug: topics.check(history, topic_store.FACTS),
        ),
    ),
    "register": (_stores("register"),),
    "set": (_stores("set"),),
    "watch": (
        Planted(
            bugs=tuple(watch_store.BUGS),
            named=_named(bug[-1] for bug in watch_store.BUGS.values()),
            run=run_watch,
            judge=_watch_judged,
        ),
    ),
}
