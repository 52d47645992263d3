"""Every fake with its planted bugs, by workload: what must be found, and what a correct one shows.

A workload of the registry has a line here. `run` makes the history of a bug (None: of the correct fake) for a seed,
`judge` gives what the workload's own checkers say of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from fencepost.harness.history import History
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Verdict
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
        bugs=tuple(name for name, bug in catalogue.BUGS.items() if bug.workload == workload),
        run=partial(_run_store, workload),
        judge=lambda history, bug: judge_fake(history, workload, bug).verdicts,
        unkept=_BELIEVED,
        named=_named(bug.anomalies for bug in catalogue.BUGS.values() if bug.workload == workload),
    )


def _fake(
    bugs: Mapping[str, tuple[str, str | Collection[str]]],
    run: Callable[[str | None, int], History],
    judge: Callable[[History], Sequence[Verdict]],
    unkept: Iterable[str] = (),
) -> Planted:
    return Planted(
        bugs=tuple(bugs),
        run=run,
        judge=lambda history, bug: judge(history),
        unkept=frozenset(unkept),
        named=_named(wanted for _, wanted in bugs.values()),
    )


def _watch_judged(history: History, bug: str | None) -> Sequence[Verdict]:
    flavour, options = (watch_store.BUGS[bug][1], watch_store.BUGS[bug][2]) if bug is not None else ("history", {})
    return judge_watch(history, flavour=flavour, **options).verdicts


FAKES: Final[Mapping[str, Sequence[Planted]]] = {
    "consumer-groups": (
        _fake(
            group_store.BUGS,
            group_store.run_fake_groups,
            lambda h: registry.checker("consumer-groups")(h, group_store.FACTS),
        ),
    ),
    "election": (
        _fake(
            election_store.BUGS,
            election_store.run_fake_election,
            lambda h: registry.checker("election")(h, election_store.facts()),
            unkept=_BELIEVED,
        ),
        _fake(
            transaction_broker.BUGS,
            transaction_runs.run_transactions,
            lambda h: registry.checker("election")(h, transaction_runs.facts()),
            unkept=_BELIEVED,
        ),
    ),
    "group-membership": (
        _fake(
            member_store.BUGS,
            member_store.run_fake_groups,
            lambda h: registry.checker("group-membership")(h, member_store.FACTS),
            # Time ends the membership of a process that cannot be told.
            unkept={"member-told-of-its-end"},
        ),
    ),
    "lease": (
        _fake(
            lease_store.BUGS, lease_store.run_fake_leases, lambda h: registry.checker("lease")(h, lease_store.facts())
        ),
    ),
    "list-append": (_fake(list_store.BUGS, list_store.run_fake_lists, list_store.judge_lists),),
    "lock": (_stores("lock"),),
    "log": (_fake(log_broker.BUGS, run_log, lambda h: judge_log(h).verdicts),),
    "log-transactions": (
        _fake(transaction_store.BUGS, transaction_store.run_fake_transactions, transaction_store.judge_transactions),
    ),
    "metadata": (_fake(metadata_store.BUGS, metadata_store.run_fake_metadata, metadata_store.judge_metadata),),
    "metastore": (
        _fake(
            meta_store.BUGS, meta_store.run_fake_metastore, lambda h: registry.checker("metastore")(h, meta_store.FACTS)
        ),
    ),
    "partition-states": (
        _fake(
            partition_store.BUGS,
            partition_store.run_fake_partitions,
            lambda h: registry.checker("partition-states")(h, partition_store.FACTS),
            unkept={"partition-states-fresh"},
        ),
        Planted(
            bugs=tuple(kept_brokers.BUGS),
            run=kept_brokers.run_fake_brokers,
            judge=lambda history, bug: registry.checker("brokers")(history, kept_brokers.FACTS),
        ),
    ),
    "producer-ids": (
        _fake(id_store.BUGS, id_store.run_fake_ids, lambda h: registry.checker("producer-ids")(h, id_store.FACTS)),
    ),
    # The interface compares nothing, so no store keeps an update behind it from being lost.
    "storage": (_stores("storage")._replace(unkept=frozenset({"update-loses-none"})),),
    "topics": (
        _fake(
            topic_store.BUGS, topic_store.run_fake_topics, lambda h: registry.checker("topics")(h, topic_store.FACTS)
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
