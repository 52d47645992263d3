"""Every rule of every workload's checkers finds what is planted for it, and a correct store is never accused.

The registry says which workloads there are, and the verdicts which rules: a new one without its plant fails here.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pytest

from fencepost.harness.history import History, OpEvent
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Validity, Verdict
from tests.fakes import metadata_store, partition_store
from tests.fakes.plants import FAKES, Planted

SEEDS = range(10)
#: Correct runs of each fake: here, with `make test-slow`, and 10,000 of all in `make soak-plants`.
FEW, MORE = range(3), range(3, 30)

#: Guarantees that are judged by what nodes say of themselves.
_OF_LEADERS = frozenset({"one-leader-per-epoch", "leader-self-fencing", "epochs-never-go-back", "snapshots-are-loaded"})
#: And those that are judged by what controllers' logs and disks say of brokers.
_OF_BROKERS = frozenset(
    {
        "broker-fenced-in-time",
        "broker-states",
        "broker-epochs",
        "one-broker-per-id",
        "controlled-shutdown",
        "leaders-are-eligible",
        "eligible-replicas-kept",
    }
)
#: Rules that no plant of a fake breaks, by guarantee and name.
UNPLANTED = {
    ("metadata-converges", "final-answers-differ"): "who is late for ever is no violation: the verdict is unknown",
    ("fenced-lock", "lost-after-seen"): "planted in tests/cases/lock.case",
    ("fenced-lock", "phantom-element"): "the same",
    ("linearizable", "cas-phantom-read"): "planted in tests/cases/linearizable.case",
    ("linearizable", "non-linearizable"): "the same; a fake shows it once in eighty runs",
    ("partition-states-converge", "final-views-differ"): "a broker that is late for ever: the same",
}


def test_every_workload_has_a_fake() -> None:
    assert set(FAKES) == set(registry.WORKLOADS)


@pytest.mark.parametrize("workload", FAKES)
def test_every_rule_that_could_have_fired_finds_what_is_planted_for_it(workload: str) -> None:
    rules = rules_of(workload)
    assert rules - set(UNPLANTED) or workload == "lock"
    missing = rules - set(UNPLANTED) - named(workload, rules)
    for found in planted(workload) if missing else ():
        missing -= found
        if not missing:
            return
    assert not missing, "plant these in tests/fakes, or say in UNPLANTED why nothing can be planted"


# All tests of a workload are on one worker: each correct run is made once.
@functools.lru_cache(maxsize=8)
def correct(fake: Planted, seed: int) -> tuple[History, Sequence[Verdict]]:
    history = fake.run(None, seed)
    return history, fake.judge(history, None)


def rules_of(workload: str) -> set[tuple[str, str]]:
    """(guarantee, rule) of every rule that had a chance in some correct run."""
    return {
        (verdict.guarantee, rule.name)
        for fake in FAKES[workload]
        for seed in FEW
        for verdict in correct(fake, seed)[1]
        for rule in verdict.rules
        # What a run lacked is planted in `tests/cases/coverage.case`: a fake has no servers and no phases.
        if rule.chances and verdict.checker != "coverage"
    }


def named(workload: str, rules: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of these rules by whose name a bug is found in the tests of the workload: they need no run here."""
    names = Counter(name for _, name in rules)
    ours = {name for fake in FAKES[workload] for name in fake.named if names[name] == 1}
    return {(guarantee, name) for guarantee, name in rules if name in ours}


def planted(workload: str) -> Iterator[set[tuple[str, str]]]:
    """(guarantee, anomaly) of what was found in a run: each bug with its first seed, then with the next one.

    A bug that was found has its other seeds last: what is missing then is likelier to be another one's.
    """
    bugs = [(fake, bug) for fake in FAKES[workload] for bug in fake.bugs]
    left = list(bugs)
    for seed in SEEDS:
        for fake, bug in list(left):
            if found := broken(fake, bug, seed):
                left.remove((fake, bug))
                yield found
    for seed in SEEDS[1:]:
        for fake, bug in bugs:
            yield broken(fake, bug, seed)


def broken(fake: Planted, bug: str, seed: int) -> set[tuple[str, str]]:
    verdicts = fake.judge(fake.run(bug, seed), bug)
    return {(v.guarantee, name) for v in verdicts if v.validity is Validity.INVALID for name in v.anomalies}


@pytest.mark.parametrize("workload", FAKES)
def test_a_correct_store_is_never_accused(workload: str) -> None:
    assert accused(workload, FEW) == []


@pytest.mark.slow
@pytest.mark.parametrize("workload", FAKES)
def test_a_correct_store_is_not_accused_in_more_runs(workload: str) -> None:
    assert accused(workload, MORE) == []


def accused(workload: str, seeds: Iterable[int]) -> list[object]:
    tried = itertools.product(enumerate(FAKES[workload]), seeds)
    return [(number, seed, found) for (number, fake), seed in tried if (found := accusations(fake, seed))]


def accusations(fake: Planted, seed: int) -> list[tuple[str, str, dict[str, int]]]:
    """Checker, guarantee and anomalies of every violation that is found in a correct run."""
    return [
        (v.checker, v.guarantee, v.counts)
        for v in correct(fake, seed)[1]
        if v.validity is Validity.INVALID and v.guarantee not in fake.unkept
    ]


@pytest.mark.parametrize(
    ("workload", "bug", "guarantee", "reason"),
    [
        ("metadata", metadata_store.STUCK, "metadata-converges", "differ between nodes at the end"),
        ("partition-states", partition_store.STUCK, "partition-states-converge", "b2 says"),
    ],
)
def test_a_copy_that_stands_still_leaves_convergence_unknown(
    workload: str, bug: str, guarantee: str, reason: str
) -> None:
    fake = FAKES[workload][0]
    (verdict,) = [v for v in fake.judge(fake.run(bug, 0), None) if v.guarantee == guarantee]
    assert verdict.validity is Validity.UNKNOWN
    assert reason in verdict.reason


@pytest.mark.parametrize("workload", FAKES)
def test_a_run_in_which_nothing_was_done_is_never_valid(workload: str) -> None:
    """The leaders, faults and phases of a run, without its operations: what is valid then is about leaders alone."""
    for fake in FAKES[workload]:
        rest = [event for event in correct(fake, 0)[0].events if not isinstance(event, OpEvent)]
        idle = History([msgspec.structs.replace(event, index=i) for i, event in enumerate(rest)], source="idle")
        valid = {v.guarantee for v in fake.judge(idle, None) if v.validity is Validity.VALID}
        assert valid <= _OF_LEADERS | _OF_BROKERS
