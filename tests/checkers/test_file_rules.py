"""Every rule of the checkers of files finds what is planted for it, and what a checker finds is a rule with a chance.

The registry says which checkers there are, and their verdicts which rules: a new one without its plants fails here.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Final, NamedTuple

import pytest

from fencepost.checkers.transactions.anomalies import check_list_append, check_register
from fencepost.checkers.transactions.exhaustion import (
    ALL,
    OWN_WRITES,
    SCHEDULES,
    SERIAL,
    Exhaustion,
    is_exhausted,
    tried,
)
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.registry import OBJECTS
from fencepost.harness.verdict import Cause, Facts, Rule, Validity, Verdict
from fencepost.harness.verdict.consistency_models import NAMES
from tests.checkers.build import Tale
from tests.checkers.objects.object_twins import TWINS
from tests.checkers.objects.test_object_proofs import drawn
from tests.checkers.objects.test_object_proofs import judged as judged_object
from tests.checkers.objects.test_object_rules import PLANTS, verdict_on
from tests.checkers.transactions.test_transaction_rules import rule_for
from tests.checkers.transactions.test_transactions import LIST_ANOMALIES, REGISTER_ANOMALIES
from tests.checkers.transactions.test_weak_isolation import CASES as WEAK_CASES
from tests.checkers.transactions.test_weak_isolation import OF_THEIR_OWN, UNDECIDED_BY_EDGES
from tests.checkers.transactions.transaction_histories import columns, small, told
from tests.interchange.formats.test_kafka_history import CASES as KAFKA_CASES
from tests.interchange.formats.test_objects import CASES as OBJECT_CASES
from tests.interchange.formats.test_objects import both
from tests.interchange.formats.test_objects import judged as judged_file

#: A checker, its rules and what it found that counts.
Judged = tuple[str, tuple[Rule, ...], set[str]]

#: Transactions on registers in which writes overwrite each other in a circle, and a process or time closes it.
CIRCLES_OF_WRITES: Final = (
    ("wx1 ry2 wy1", "rx1 wx2 wy2"),
    ("wx1 #1 @2-3", "rx1 wx2 #1 @0-1"),
    ("wx1 @2-3", "rx1 wx2 @0-1"),
    ("wx1", "wx2", "rx1 #1 @0-1", "rx2 #1 @2-3", "rx2 #2 @0-1", "rx1 #2 @2-3"),
)


class LastResort(NamedTuple):
    """A rule that fires only where no other rule of its checker has: it stands for "no order explains this".

    Another rule names what is wrong with every history that was tried, so that a plant shows two things: the rule finds
    it when it is asked alone, and the checker finds it, too, by that other rule.
    """

    checker: str
    rule: str


#: Orders of transactions that are all tried, by model, where edges left it open. Of lists every read shows the order of
#: what was appended, so edges leave nothing open; of registers the order that a process or time gives is an edge.
ORDERS: Final = tuple(
    (LastResort("list-append" if lists else "rw-register", name), model)
    for lists in (True, False)
    for model, name in (SERIAL | SCHEDULES).items()
    if lists or name in ("no-schedule-realtime", "no-serial-order-process", "no-serial-order-realtime")
)
#: What is left over of an object's history that no order explains; a small history always has a better name.
LEFT_OVER: Final = tuple(LastResort(checker, "non-linearizable") for checker in OBJECTS)
#: In lists, whoever read a version that lacks an append read a list that the append comes after: that order alone makes
#: the circle, without the process.
WITHOUT_PROCESS: Final = LastResort("list-append", "observed-transaction-vanishes-process")
LAST_RESORTS: Final = {*(last for last, _ in ORDERS), *LEFT_OVER, WITHOUT_PROCESS}

#: Small random histories that show what the named ones do not, of lists and of registers.
SEEDS: Final = {True: (7, 75), False: (287, 376, 433, 833, 924, 1860, 2520)}
#: Lists in which a part of what was seen is gone again; in the second one by the order of a process.
VANISHED: Final = (("ax1 ay1", "rx1 ry"), ("ax1 #1 @0-1", "ax2 ay2 #1 @2-3", "ry2 rx1 #2 @4-9"))

#: What these checkers must be told beside the history.
PARAMETERS: Final = {"semaphore": "2", "user-model": "tests.interchange.formats.user_stack:Stack"}


def _word(verdict: Verdict) -> Judged:
    return verdict.checker, verdict.rules, set(verdict.anomalies)


def _objects() -> Iterator[Judged]:
    for checker, calls, overlap in PLANTS.values():
        yield _word(verdict_on(checker, calls, overlap=overlap))
    for model, lines, _ in OBJECT_CASES:
        yield from map(_word, judged_file(lines, model).verdicts)
    for twin in TWINS:
        for model in twin.models:
            for seed in range(40):
                yield _word(judged_object(model, drawn(twin, str(seed), 12, bent=True)))


def _kafka() -> Iterator[Judged]:
    for lines, _ in KAFKA_CASES:
        yield from map(_word, judged_file(lines, "log").verdicts)


def _transactions(*, lists: bool) -> Iterator[Judged]:
    """Anomalies that count under a more general rule of the model stand as that rule."""
    check = check_list_append if lists else check_register
    named = [told(*lines) for lines, *_ in (LIST_ANOMALIES if lists else REGISTER_ANOMALIES).values()]
    named += [told(*lines) for lines in (OF_THEIR_OWN if lists else UNDECIDED_BY_EDGES).values()]
    named += [told(*lines) for lines in (VANISHED if lists else [lines for lines, *_ in WEAK_CASES.values()])]
    named += [small(random.Random(seed), lists=lists) for seed in SEEDS[lists]]
    named += [] if lists else [told(*lines) for lines in CIRCLES_OF_WRITES]
    for history, model in product(named, NAMES):
        verdict = check(columns(history), model=model)
        names = {rule.name: rule.chances for rule in verdict.rules}
        found = {rule_for(anomaly, names) for anomaly in set(verdict.anomalies) - set(verdict.allowed)}
        yield "list-append" if lists else "rw-register", verdict.rules, found


def _answers() -> Iterator[Judged]:
    for model, lines in (
        ("unique-ids", both("0 generate nil -> 1", "1 generate nil -> 1")),
        ("bank-totals", both("0 read nil -> {:a 1 :b 2}", "0 read nil -> {:a 1 :b 3}", "0 read nil -> {:a -1 :b 4}")),
    ):
        yield from map(_word, judged_file(lines, model).verdicts)


def _users_model() -> Iterator[Judged]:
    for answer in (1, 2):
        lines = both("0 push 1", "0 push 2", f"1 pop nil -> {answer}")
        yield from map(_word, judged_file(lines, PARAMETERS["user-model"]).verdicts)


#: What is planted, by the checkers that it is planted for.
POOLS: Final[dict[tuple[str, ...], Callable[[], Iterator[Judged]]]] = {
    OBJECTS: _objects,
    ("bank-totals", "unique-ids"): _answers,
    ("kafka-log",): _kafka,
    ("list-append",): partial(_transactions, lists=True),
    ("rw-register",): partial(_transactions, lists=False),
    ("user-model",): _users_model,
}


def test_every_checker_of_files_has_plants() -> None:
    assert {name for names in POOLS for name in names} == set(registry.FILE_CHECKERS)


@pytest.mark.parametrize("checkers", POOLS, ids=lambda checkers: checkers[0])
def test_every_rule_finds_what_is_planted_for_it(checkers: tuple[str, ...]) -> None:
    rules, found = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for checker, own, anomalies in POOLS[checkers]():
        chances = {rule.name: rule.chances for rule in own}
        assert all(bool(rule.lacks) == (rule.chances == 0) for rule in own), checker
        assert [name for name in anomalies if not chances.get(name)] == [], checker
        rules[checker] |= set(chances)
        found[checker] |= anomalies
    assert set(checkers) <= set(rules)
    missing = {(checker, name) for checker in checkers for name in rules[checker] - found[checker]}
    assert missing == {(last.checker, last.rule) for last in LAST_RESORTS if last.checker in checkers}


#: No order explains it: two transactions that updated one version, then one that read what stood before both.
NO_ORDER: Final = {
    True: ("rx ax1 @0-1 #1", "rx ax2 @2-3 #1", "rx @4-5 #1", "rx1,2 @6-7 #2"),
    False: ("rx_ wx1 @0-1 #1", "rx_ wx2 @2-3 #1", "rx_ @4-5 #1", "rx1 @6-7 #2"),
}


@pytest.mark.parametrize(("last", "model"), ORDERS, ids=lambda part: part if isinstance(part, str) else part.checker)
def test_a_last_resort_finds_its_plant_alone_and_another_rule_finds_it_first(last: LastResort, model: str) -> None:
    lists = last.checker == "list-append"
    history = columns(told(*NO_ORDER[lists]))
    alone = tried(history, model, lists=lists)
    assert isinstance(alone, Exhaustion) and alone.name == last.rule
    assert is_exhausted(history, alone, lists=lists)
    verdict = (check_list_append if lists else check_register)(history, model=model)
    assert verdict.validity is Validity.INVALID and last.rule not in verdict.anomalies


@pytest.mark.parametrize("lists", [True, False])
def test_wherever_no_order_exists_a_rule_has_said_so(lists: bool) -> None:
    """All orders of small random histories are tried: the checker is never left without a name for what is wrong."""
    exhausted = 0
    for seed in range(300):
        history = columns(small(random.Random(f"last resorts {seed}"), lists=lists))
        for model in ALL if seed % 10 == 0 else ("serializable", "snapshot-isolation"):
            if isinstance(tried(history, model, lists=lists), Exhaustion):
                exhausted += 1
                verdict = (check_list_append if lists else check_register)(history, model=model)
                open_ = model in OWN_WRITES and "internal" in verdict.anomalies
                assert verdict.validity is Validity.INVALID or open_, (seed, model)
    assert exhausted > 30


@pytest.mark.parametrize("checker", registry.FILE_CHECKERS)
def test_where_no_rule_could_have_fired_the_verdict_is_unknown_and_says_what_was_lacking(checker: str) -> None:
    options = {"parameter": PARAMETERS.get(checker, "")}
    required = ("strict-serializable",)
    facts = Facts(system="", workload="", nodes=(), guarantees=(), required=required, options=options)
    (verdict,) = registry.checker(checker)(Tale().history(), facts)
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE)
    assert verdict.rules and not any(rule.chances for rule in verdict.rules)
    assert all(rule.lacks for rule in verdict.rules)
