"""Fingerprints: the same for the same anomaly at another time, on other values and nodes; another for another kind."""

from typing import Any

import msgspec
import pytest

from fencepost.harness.history import (
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    OpEvent,
    Outcome,
)
from fencepost.harness.history.effects import Effects
from fencepost.harness.verdict import Facts, Guarantee, Standing, Validity, Verdict, Witness
from fencepost.harness.verdict.figures import Traced
from fencepost.harness.verdict.fingerprint import all_fingerprints, anomalies, is_shown, violation_of
from tests.runs.test_found import FOUND

PROMISED = Guarantee(name="linearizable", standing=Standing.PROMISED, text="", source="")
FACTS = Facts(system="etcd", workload="register", nodes=("n1", "n2"), guarantees=(PROMISED,))
FREE = frozenset({"read", "observe"})


def history(*functions: str, at_ns: int = 0, node: str = "n1", value: int = 1) -> History:
    events: list[Event] = []
    for process, f in enumerate(functions):
        for kind in (Outcome.INVOKE, Outcome.OK):
            index = len(events)
            events.append(
                OpEvent(index=index, time_ns=at_ns + index, type=kind, process=process, f=f, node=node, value=value)
            )
    return History(events)


def verdict(*witnesses: tuple[str, tuple[int, ...]], guarantee: str = "linearizable", count: int = 1) -> Verdict:
    return Verdict(
        checker="c",
        guarantee=guarantee,
        validity=Validity.INVALID,
        anomalies={name: Traced(count) for name, _ in witnesses},
        witnesses=tuple(Witness(anomaly=name, events=rows, steps=(), from_ns=0, to_ns=1) for name, rows in witnesses),
    )


def prints(kept: History, *verdicts: Verdict) -> tuple[str, ...]:
    return all_fingerprints(anomalies(kept, FACTS, verdicts, FREE))


def test_operations_that_change_nothing_are_named_and_all_others_are_one_kind() -> None:
    kept = history("write", "cas", "observe", "read")
    assert prints(kept, verdict(("stale", (0, 1, 6, 7)))) == ("etcd:linearizable:stale:read+change:none",)
    assert prints(kept, verdict(("stale", (2, 3, 6, 7)))) == ("etcd:linearizable:stale:read+change:none",)
    assert prints(kept, verdict(("stale", (4, 5, 6)))) == ("etcd:linearizable:stale:observe+read:none",)
    assert prints(kept, verdict(("stale", (0, 1)))) == ("etcd:linearizable:stale:change:none",)
    assert prints(kept, verdict(("claims", ()))) == ("etcd:linearizable:claims:none:none",)


def test_effects_of_faults_on_the_witnesss_nodes_are_part_of_it() -> None:
    events = list(history("write", "read").events)
    of: dict[str, Any] = {"fault_id": 0, "fault": "partition", "target": "one", "nodes": ("n1",), "time_ns": 4}
    of |= {"action": FaultAction.INJECT, "outcome": FaultOutcome.PENDING}
    events += [FaultEvent(index=4, stage=FaultStage.BEGIN, effects=Effects(cuts=True, skews=True), **of)]
    kept = History(events)

    def shown(node: str, to_ns: int) -> str:
        witness = Witness(anomaly="stale", events=(0, 1), steps=(), from_ns=0, to_ns=to_ns, nodes=(node,))
        (text,) = prints(kept, msgspec.structs.replace(verdict(("stale", ())), witnesses=(witness,)))
        return text

    assert shown("n1", 9) == "etcd:linearizable:stale:change:cuts+skews"
    assert shown("n2", 9) == shown("n1", 3) == "etcd:linearizable:stale:change:none"
    assert violation_of(shown("n1", 9)) == violation_of(shown("n2", 9)) == "etcd:linearizable:stale:change"
    assert is_shown("etcd:linearizable:stale:change", [shown("n1", 9)]) and not is_shown(None, [shown("n1", 9)])


def test_no_time_value_node_or_count_is_part_of_it() -> None:
    one = prints(history("write", "read"), verdict(("stale", (0, 1, 2, 3))))
    other = prints(history("write", "read", at_ns=10**9, node="n2", value=7), verdict(("stale", (0, 3)), count=9))
    assert one == other


def test_several_shapes_of_one_anomaly_are_all_kept_the_first_witness_first() -> None:
    kept = history("write", "read")
    (found,) = anomalies(kept, FACTS, (verdict(("stale", (0, 1)), ("stale", (0, 3)), ("stale", (1,))),), FREE)
    assert found.fingerprints == ("etcd:linearizable:stale:change:none", "etcd:linearizable:stale:read+change:none")


def test_what_decides_comes_first_and_a_verdict_without_a_name_has_one_too() -> None:
    beside = verdict(("odd", (2, 3)), guarantee="elsewhere")
    bare = Verdict(checker="c", guarantee="linearizable", validity=Validity.INVALID)
    assert prints(history("write", "read"), beside, bare) == (
        "etcd:linearizable:unnamed:none:none",
        "etcd:elsewhere:odd:read:none",
    )
    assert prints(history("write"), msgspec.structs.replace(bare, validity=Validity.VALID)) == ()


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("etcd-3.5.1-lost-writes", "etcd:no-lost-acknowledged-writes:lost-write:members+change:stops"),
        ("zookeeper-3.9.5-stale-after-sync", "zookeeper:fresh-after-sync:stale-read:read+change:stops"),
        ("kafka-3.6.0-controller-goes-on", "kraft:leader-self-fencing:self-fencing-failed:none:cuts"),
    ],
)
def test_findings_have_the_fingerprints_that_replays_count(name: str, fingerprint: str) -> None:
    from fencepost.campaigns.replay.recorded import shown_by

    assert shown_by(FOUND / name)[0].fingerprints[0] == fingerprint
