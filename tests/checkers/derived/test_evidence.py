"""Every checker names the rows behind its figures, so that each can be done again from these rows alone.

A table over the registry: a checker that is not in it, or that counts something without saying which rows, fails here.
Figures are done again from nothing but the rows that they hold (`tests.report.proof`).
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from fencepost.harness.history import Event, History, Outcome
from fencepost.harness.judging.judge import judge
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import values
from tests.cases.language import facts_of
from tests.cases.test_cases import FILES, forms
from tests.checkers.build import Tale, facts
from tests.fakes import (
    group_store,
    kept_brokers,
    lease_store,
    member_store,
    meta_store,
    metadata_store,
    partition_store,
    topic_store,
    transaction_store,
)
from tests.histories.language import FOLDER, cases, parse
from tests.report import sample_kafka
from tests.report.proof import Figure, figures_of, why_not

OK, FAIL, INFO, INVOKE = Outcome.OK, Outcome.FAIL, Outcome.INFO, Outcome.INVOKE
Example = tuple[History, Facts]
FOUND: Final = sorted(path.parent for path in (FOLDER / "found").glob("*/plan.toml"))


def told(suffix: str, **more: Any) -> Iterator[Example]:
    """The kept histories of one kind."""
    for case in cases(suffix):
        yield case.history, facts(**more)


def register() -> Iterator[Example]:
    yield from told("register")
    # On two keys nothing explains what was read, and a write is left open.
    yield parse("a:w1@p b(w5@p a:w2@p c:r1@p a:w3@q e:r4@q d(w9@q d?"), facts()


def elements() -> Iterator[Example]:
    yield from told("set", workload="set")
    words = "a:+1 b(+2 b? c(+3 c? d(+4 d! a:+5 e:m1,5 e(m e? | c(m a:+6 c)1,2,5,5,5 d:m1,2,6,9"
    yield parse(words), facts(workload="set")


def puts() -> Iterator[Example]:
    tale = Tale()
    ok, fail, unknown = Outcome.OK, Outcome.FAIL, Outcome.INFO
    tale.op("update", "a", [1, None], at=(1, 2), type=ok)
    tale.op("update", "b", [2, None], at=(3, 4), type=fail, error="absent")
    tale.op("put", "b", [3, []], at=(5, 6), type=fail, error="exists")
    tale.op("put", "c", [4, []], at=(7, 8), type=ok, process=1)
    tale.op("put", "c", [5, []], at=(9, 10), type=ok, process=2)
    tale.op("update", "c", [6, None], at=(11, 12), type=fail, error="absent", process=2)
    for number, process in ((7, 1), (8, 2)):
        tale.op("update", "c", [number, 4], at=(6 + number, 6.5 + number), type=ok, process=process)
    for key, shown in (("d", None), ("e", 10)):
        own = 9 if key == "d" else 10
        tale.op("put", key, [own, []], at=(20 + own, 20.2 + own), type=unknown, process=20 + own)
        tale.op("put", key, [own + 10, [own]], at=(40 + own, 40.2 + own), type=fail, error="exists", process=own)
        tale.op("fetch", key, at=(60 + own, 60.2 + own), result=shown, process=own)
    yield tale.history(), facts(workload="storage")


def lock() -> Iterator[Example]:
    for fencing, kinds in {"on": ("lock", "fenced"), "off": ("lock", "unfenced")}.items():
        for kind in kinds:
            yield from told(kind, workload="lock", options={"fencing": fencing})
    words = "a(k1 a[ b(k2 b[ b] a] b)2 a)1 c(k3 c! d(k4 d[ d? | c:m2,4"
    for fencing in ("on", "off"):
        yield parse(words), facts(workload="lock", options={"fencing": fencing})


def partition_states() -> Iterator[Example]:
    for bug in (None, "two-leaders", "went-back", "not-fenced"):
        yield partition_store.run_fake_partitions(bug, 1, {"rate": 20.0}), partition_store.FACTS


def consumer_groups() -> Iterator[Example]:
    for bug in (None, *group_store.BUGS):
        yield group_store.run_fake_groups(bug, 1, {"rate": 30.0}), group_store.FACTS


def log_transactions() -> Iterator[Example]:
    for bug in (None, *transaction_store.BUGS):
        yield transaction_store.run_fake_transactions(bug, 1, {"rate": 6.0}), transaction_store.FACTS


def topics() -> Iterator[Example]:
    for bug in (None, *topic_store.BUGS):
        yield topic_store.run_fake_topics(bug, 1), topic_store.FACTS


def leases() -> Iterator[Example]:
    for bug in ("zombie-revokes", "zombie-answers", "comes-back"):
        yield lease_store.run_fake_leases(bug, 0), lease_store.facts()


def members_of_groups() -> Iterator[Example]:
    for bug in member_store.BUGS:
        yield member_store.run_fake_groups(bug, 0), member_store.FACTS


def metastore() -> Iterator[Example]:
    for bug in meta_store.BUGS:
        yield meta_store.run_fake_metastore(bug, 0), meta_store.FACTS


#: A case that names no rules, since nothing is known.
LEFT_OUT: Final = "without logs nothing is known"


def of_cases(checker: str) -> Callable[[], Iterator[Example]]:
    """The histories of `tests/cases` that this checker judges."""

    def made() -> Iterator[Example]:
        for form in (form for path in FILES for form in forms(path)):
            usable = not form.name.startswith(LEFT_OUT) and not form.answer[0].startswith("=> refused")
            if form.checker == checker and usable:
                yield form.history(), facts_of(form)

    return made


def kafka(*which: str) -> Callable[[], Iterator[Example]]:
    def made() -> Iterator[Example]:
        for name in which:
            case = sample_kafka.CASES[name]()
            yield case.history, case.facts

    return made


def brokers() -> Iterator[Example]:
    for bug in (None, *kept_brokers.BUGS):
        yield kept_brokers.run_fake_brokers(bug, 1), kept_brokers.FACTS


def snapshots() -> Iterator[Example]:
    for bug in (None, "whole-log"):
        yield metadata_store.run_fake_metadata(bug, 1), metadata_store.FACTS


def told_to_listeners() -> Iterator[Example]:
    for bug in (None, "listener-skips", "listener-epoch", "withdraws", "tells-two", "listener-lacks"):
        yield metadata_store.run_fake_metadata(bug, 1), metadata_store.FACTS


EXAMPLES: Final[dict[str, Callable[[], Iterator[Example]]]] = {
    "brokers": brokers,
    "consumer-groups": consumer_groups,
    "coverage": of_cases("coverage"),
    "election": of_cases("election"),
    "freshness": of_cases("freshness"),
    "ground-truth": of_cases("ground-truth"),
    "both-stores": of_cases("both-stores"),
    "dual-write": of_cases("dual-write"),
    "progress": of_cases("progress"),
    "handover": of_cases("handover"),
    "group-membership": members_of_groups,
    "lease": leases,
    "leadership": kafka("zombie-controller", "zombie-brokers"),
    "late-effects": of_cases("late-effects"),
    "linearizable": register,
    "lock": lock,
    "log": kafka("zombie-brokers"),
    "log-agreement": of_cases("log-agreement"),
    "log-transactions": log_transactions,
    "metadata": kafka("zombie-controller"),
    "metadata-listeners": told_to_listeners,
    "metastore": metastore,
    "partition-states": partition_states,
    "producer-ids": of_cases("producer-ids"),
    "rejoin": kafka("zombie-controller"),
    "replicas": of_cases("replicas"),
    "resumption": of_cases("resumption"),
    "session-order": of_cases("session-order"),
    "set": elements,
    "storage": puts,
    "snapshots": snapshots,
    "topic-names": kafka("zombie-controller"),
    "topics": topics,
    "watch": of_cases("watch"),
    "zombie-brokers": kafka("zombie-brokers"),
    "zombie-controllers": of_cases("zombie-controllers"),
}


def test_every_checker_has_its_examples() -> None:
    assert sorted(EXAMPLES) == sorted(registry.CHECKERS), "a new checker needs examples here that put it to the test"


@cache
def judged(name: str) -> list[tuple[History, list[Verdict]]]:
    checker = registry.checker(name)
    return [(history, checker(history, given)) for history, given in EXAMPLES[name]()]


def claimed(name: str) -> Iterator[tuple[Figure, list[Event]]]:
    """Every number that the checker claims of its examples, with the rows that it names and no other."""
    for history, verdicts in judged(name):
        for verdict in verdicts:
            for figure in figures_of(verdict):
                yield figure, [history.events[i] for i in figure.rows]


def is_length(figure: Figure) -> bool:
    return figure.name.endswith("_ns") or "_ns_" in figure.name


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_figure_can_be_done_again_from_its_rows(name: str) -> None:
    assert [said for figure, rows in claimed(name) if (said := why_not(figure, rows))] == []


#: Of these no number is claimed by rows of the history.
ON_DISK: Final = {"both-stores", "handover", "zombie-controllers"}


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ON_DISK])
def test_the_examples_put_the_checker_to_the_test(name: str) -> None:
    counted = [figure for figure, _ in claimed(name) if figure.value]
    assert {"exposure"} < {figure.name for figure in counted}


def is_count(figure: Figure) -> bool:
    """Neither a length nor a moment, an epoch or a number that was given out."""
    return not is_length(figure) and not re.search(r"epoch|superseded_by|^id_m", figure.name)


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_counted_twice(name: str) -> None:
    """But for what one reply tells of several things, and one operation that breaks a rule in two ways."""
    several = re.compile(
        r"\.(duplicates|anomalies\..*|seen_gone|revoked_under_superseded_leader)$|^watch\..*\.(exposure|events|changes|late|answers|bookmarks)$"
    )
    counts = [figure for figure, _ in claimed(name) if is_count(figure) and not several.search(figure.path)]
    assert [figure for figure in counts if len(set(figure.rows)) != len(figure.rows)] == []


#: Checkers that name the rules of every guarantee.
WITH_RULES: Final = (
    "both-stores",
    "brokers",
    "consumer-groups",
    "coverage",
    "dual-write",
    "freshness",
    "ground-truth",
    "handover",
    "group-membership",
    "log",
    "log-agreement",
    "log-transactions",
    "metadata",
    "metadata-listeners",
    "metastore",
    "partition-states",
    "progress",
    "topics",
    "rejoin",
    "replicas",
    "resumption",
    "session-order",
    "set",
    "storage",
    "topic-names",
    "watch",
    "zombie-brokers",
    "zombie-controllers",
)


@pytest.mark.parametrize("name", WITH_RULES)
def test_a_rule_that_fired_had_its_chances(name: str) -> None:
    """Each violation is of a rule that is named, and of no fewer chances; one without any says what was lacking."""
    for _, verdicts in judged(name):
        for verdict in verdicts:
            chances = {rule.name: rule.chances for rule in verdict.rules}
            assert chances, verdict.guarantee
            assert [name for name, n in verdict.counts.items() if chances.get(name, 0) < n] == [], verdict
            assert all(bool(rule.lacks) == (rule.chances == 0) for rule in verdict.rules)


#: What is judged of transactions on lists is counted by the native core, in columns: no row of the history is named.
IN_COLUMNS: Final = "cassandra-6.0-alpha2-second-append"


@pytest.mark.parametrize(
    "folder", [folder for folder in FOUND if folder.name != IN_COLUMNS], ids=lambda folder: folder.name
)
def test_every_figure_of_a_real_system_s_history(folder: Path) -> None:
    history, judgement = judge(folder)
    figures = [figure for verdict in judgement.verdicts for figure in figures_of(verdict)]
    # A store without a leader has none of the figures about reigns and claims.
    has_leader = any(verdict.checker == "leadership" for verdict in judgement.verdicts)
    assert len([figure for figure in figures if figure.value]) > (20 if has_leader else 15)
    wrong = (why_not(figure, [history.events[i] for i in figure.rows]) for figure in figures)
    assert [said for said in wrong if said] == []


def test_what_is_told_of_the_disks_names_its_place_there() -> None:
    """A deed of a superseded controller stands in the servers' logs, by its zxid, or in lines, which are rows."""
    for history, verdicts in judged("zombie-controllers"):
        offsets = {f"{entry.offset:#x}" for log in history.logs.values() for entry in log.entries}
        for verdict in verdicts:
            if not verdict.tested:
                continue
            figures = values(verdict.figures)
            attempts = figures["attempts"]
            assert verdict.tested == len(attempts)
            for one in attempts:
                assert one.get("zxid") in offsets or one["what"].rows
                assert all(history.events[i] for i in one["what"].rows)
            fenced = [one for one in attempts if "refused_by" in one]
            assert figures["attempted_but_fenced"] == len(fenced)
            assert len(attempts) - len(fenced) == sum(verdict.counts.values())
        if not verdicts:
            continue
        own = values(verdicts[0].figures)
        assert own["attempted_but_fenced"] == sum(own["fenced_by"].values())
        assert own["controllers"] == len(own["elections"])
        assert {one["zxid"].value for one in own["elections"]} <= offsets
