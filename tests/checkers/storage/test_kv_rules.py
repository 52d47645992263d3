"""Which rules about a store with numbered writes could have fired: counted by what was asked and answered."""

import pytest

from fencepost.checkers.storage.kv import etcd
from fencepost.checkers.storage.kv.acts import Dialect
from fencepost.checkers.storage.kv.etcd import ETCD
from fencepost.checkers.storage.kv.rules import rules_of
from fencepost.checkers.storage.kv.zookeeper import ZOOKEEPER
from fencepost.harness.verdict import Cause, Validity
from tests.checkers.build import assert_each_had_a_chance
from tests.checkers.storage.test_kv import CASES, facts, judged, tell

#: A compare-and-set that was accepted with the second version, and with the fifth one.
VERSIONS = [
    (
        ETCD,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 write x 6 -> {"revision": 3}',
            f'0 cas x {{"value": 7, "version": {version}}} -> {{"revision": 4}}',
            '1 read x -> {"value": 7, "revision": 4, "mod-revision": 4, "version": 3, "create-revision": 2}',
        ],
        said,
    )
    for version, said in ((2, "valid"), (5, "cas-on-wrong-version"))
]


def chances(dialect: Dialect, *lines: str) -> dict[str, int]:
    return {rule.name: rule.chances for rule in judged(dialect, *lines).rules}


def test_every_anomaly_of_the_cases_is_a_rule() -> None:
    """And each rule but that of what is left over fires in a case of one of the stores."""
    fired, rules = set[str](), set[str]()
    for dialect in (ETCD, ZOOKEEPER):
        shown = {said for own, _, said in [*CASES, *VERSIONS] if own is dialect and said != "valid"}
        own_rules = {rule.name for rule in rules_of((), dialect)}
        assert shown <= own_rules
        fired |= shown
        rules |= own_rules
    assert rules - fired <= {"non-linearizable"}


@pytest.mark.parametrize(("dialect", "lines", "said"), VERSIONS)
def test_a_compared_version_is_judged(dialect: Dialect, lines: list[str], said: str) -> None:
    verdict = judged(dialect, *lines)
    assert list(verdict.anomalies) == ([] if said == "valid" else [said])
    assert_each_had_a_chance(verdict)


def test_one_write_could_have_shown_little() -> None:
    counts = chances(ETCD, '0 write x 5 -> {"revision": 2}')
    assert {name for name, count in counts.items() if count} == {"impossible-metadata"}


def test_lacks_are_named_where_there_was_no_chance() -> None:
    (verdict,) = etcd.check(tell('0 write x 5 -> {"revision": 2}'), facts(exposure_min=1))
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE)
    lacks = {rule.name: rule.lacks for rule in verdict.rules}
    assert lacks["stale-read"] == "no read that must be current was invoked after an answer"
    assert lacks["impossible-metadata"] == ""


@pytest.mark.parametrize(
    ("lines", "rule", "count"),
    [
        (
            ('0 write x 5 -> {"revision": 2}', '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}'),
            "stale-read",
            1,
        ),
        (('0 write x 5 -> {"revision": 2}', '1 write x 6 -> {"revision": 3}'), "revision-went-back", 1),
        (('0 write x 5 -> {"revision": 2}', '1 read y -> {"revision": 2}'), "lost-write", 0),
        (('0 delete x -> {"revision": 2}',), "delete-of-nothing", 1),
        (('0 write x 5 -> {"revision": 2, "create-revision": 2}',), "phantom-read", 1),
    ],
)
def test_chances_are_counted(lines: tuple[str, ...], rule: str, count: int) -> None:
    assert chances(ETCD, *lines)[rule] == count
