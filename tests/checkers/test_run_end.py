"""How a run ends: replicas that differ for good, and a cluster that does not serve again once nothing disturbs it."""

from typing import Any

import pytest

from fencepost.checkers import replicas, resumption
from fencepost.harness.history import Effects, Outcome, PhaseName, ReplicaEvent, Stops
from fencepost.harness.verdict import Cause, Guarantee, ResumeBound, Standing, Validity, Verdict
from tests.checkers.build import Tale, facts, only

_NAMES = ("replicas-agree", "writes-resume", "reads-resume", "leader-elected")
_STATED = tuple(Guarantee(name=name, standing=Standing.PROMISED, text=name, source="a test") for name in _NAMES)
#: Judged from 4 s on.
_BOUND = ResumeBound(bound_ns=2_000_000_000, source="a test")


def given(**more: Any) -> Any:
    return facts(guarantees=_STATED, resume=_BOUND, effect_free=("read",), subjects=("leader",), **more)


def disturbed() -> Tale:
    tale = Tale()
    tale.phase(PhaseName.MAIN, 0)
    tale.claim("n1", 1, 10, 20)
    tale.write("a", 1, at=(100, 101))
    tale.read("a", 1, at=(110, 111))
    tale.fault("kill", ("n1",), (200, 210, 900, 910), effects=Effects(stops=Stops.CERTAIN))
    tale.phase(PhaseName.SETTLE, 1_000)
    return tale


def replica(tale: Tale, node: str, since: float, value: str | None, position: int | None = 7, **more: Any) -> None:
    fields = {"asked_ns": round(since * 1e6), "subject": "store", "position": position, "incarnation": 0, **more}
    tale.tell(ReplicaEvent, 30_000, node=node, value=value, **fields)


@pytest.mark.parametrize(
    ("last", "validity", "anomalies", "text"),
    [
        (("n3", 16_000, "d1"), Validity.VALID, {}, "n1, n2, n3 held the same"),
        (("n3", 16_000, "d2"), Validity.INVALID, {"replicas-differ": 1}, ""),
        (("n3", 16_000, "d2", 6), Validity.INVALID, {"lagging-replica": 1}, ""),
        # One that is ahead alone differs from nobody at its position; what the others lack is told of each of them.
        (("n3", 16_000, "d2", 8), Validity.INVALID, {"lagging-replica": 2}, ""),
        (("n3", 25_000, "d2"), Validity.UNKNOWN, {}, "n3 and n1 differed still"),
        (("n3", 16_000, None), Validity.VALID, {}, "n1, n2 held the same after the load; n3 was not read (no answer)"),
    ],
)
def test_replicas(last: tuple[Any, ...], validity: Validity, anomalies: dict[str, int], text: str) -> None:
    tale = disturbed()
    replica(tale, "n1", 16_000, "d1")
    replica(tale, "n2", 16_000, "d1")
    replica(tale, *last, detail=None if last[2] else "no answer")
    for node, value in (("n1", "1 at 5"), ("n3", None)):
        replica(tale, node, 16_000, value, key="a")
    verdict = only(replicas.check(tale.history(), given()), "replicas-agree")
    assert (verdict.validity, verdict.counts) == (validity, anomalies), verdict.reason
    assert text in verdict.reason
    if anomalies:
        assert any("a: n3 has nothing, n1 has 1 at 5." in step for w in verdict.witnesses for step in w.steps) or (
            last[-1] == 8
        )
        assert "unchanged from 16.000000 s until 30.000000 s" in verdict.witnesses[0].steps[0]


def test_one_replica_agrees_with_nobody() -> None:
    tale = disturbed()
    replica(tale, "n1", 16_000, "d1")
    replica(tale, "n2", 16_000, None, detail="no answer")
    verdict = only(replicas.check(tale.history(), given()), "replicas-agree")
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE)
    assert "n2 was not read (no answer)" in verdict.reason


def ends(*, served_at: float | None, healed: bool = True) -> list[Verdict]:
    """A load from 2 s after healing to 9 s after it; requests succeed, and n2 leads, from `served_at` on."""
    tale = disturbed()
    if not healed:
        tale.fault("partition", ("n2",), (300, 310, 800, None), effects=Effects(cuts=True))
    for at in range(3_000, 10_000, 500):
        good = served_at is not None and at >= served_at
        outcome: dict[str, Any] = {} if good else {"type": Outcome.INFO}
        tale.write("a", at, at=(at, at + 1), **outcome)
        tale.read("a", at, at=(at + 2, at + 3), **({} if good else {"type": Outcome.FAIL}))
        if good:
            tale.claim("n2", 2, at + 4, at + 5)
        else:
            tale.deny("n2", at + 4, at + 5)
    return resumption.check(tale.history(), given())


@pytest.mark.parametrize(
    ("served_at", "validity"), [(3_000, Validity.VALID), (6_000, Validity.VALID), (None, Validity.INVALID)]
)
def test_a_cluster_serves_again(served_at: float | None, validity: Validity) -> None:
    verdicts = ends(served_at=served_at)
    assert [verdict.validity for verdict in verdicts] == [validity] * 3, [verdict.reason for verdict in verdicts]


def test_one_that_serves_late_and_one_that_was_never_healed() -> None:
    late = ends(served_at=8_000)
    assert [verdict.validity for verdict in late] == [Validity.INVALID, Validity.INVALID, Validity.VALID]
    assert "the last success before was at 0.101000 s" in late[0].witnesses[0].steps[0]
    assert all(verdict.cause is Cause.UNDECIDED for verdict in ends(served_at=None, healed=False))


def test_without_faults_nothing_has_to_resume() -> None:
    tale = Tale()
    tale.write("a", 1, at=(100, 101))
    tale.phase(PhaseName.SETTLE, 1_000)
    assert all(v.cause is Cause.NO_EXPOSURE for v in resumption.check(tale.history(), given()))
