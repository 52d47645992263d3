"""Judged histories of Kafka made by hand, with the checkers' own verdicts: small, and wrong in many ways at once."""

from collections.abc import Callable
from typing import Any

from fencepost.checkers import leadership, log
from fencepost.checkers.derived.derive import derive
from fencepost.checkers.log import zombie_leaders
from fencepost.harness.history import Claim, History, Outcome, PhaseName
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.systems.kafka.checkers import metadata
from fencepost.systems.kafka.checkers.metadata import rejoin, topic_names
from tests.checkers.build import NODES, Tale, bound, facts


def judged(tale: Tale, given: Facts, *checks: Callable[[History, Facts], list[Verdict]]) -> ReportCase:
    history = tale.history()
    return ReportCase(
        history=history,
        facts=given,
        verdicts=tuple(verdict for check in checks for verdict in check(history, given)),
        validity=Validity.UNKNOWN,
        headline="made by hand",
        run={},
        command="fencepost run plan.toml",
        plan_toml="",
        derived=derive(history, given),
    )


def _changed(tale: Tale, f: str, key: str, value: Any, at: tuple[float, float], node: str, process: int) -> None:
    tale.op(f, key, value, at=at, node=node, process=process)


def zombie_controller() -> ReportCase:
    """n1 leads epoch 3, is cut off from 1 s to 11 s and paused for one of them, and claims on; n2 leads epoch 4.

    Broker b1 stays with n1 until 7 s, answers old settings and says that a taken name is free; so does n1. When n1
    comes back, n3 takes over in epoch 10.
    """
    tale = Tale()
    tale.health(0, 20_000)
    tale.claims("n1", 3, [float(at) for at in range(0, 9_000, 50)], subject="raft")
    tale.cut("n1", 1_000, 11_000)
    tale.pause("n1", 5_000, 6_000)
    tale.claims("n2", 4, [float(at) for at in range(2_500, 11_080, 50)], subject="raft")
    tale.deny("n2", 11_100, 11_101, subject="raft")
    tale.claims("n3", 10, [float(at) for at in range(11_800, 20_000, 50)], subject="raft")
    for at in range(2_600, 9_000, 300):
        tale.belief("n1", Claim.SILENT, at, at + 200, subject="controller")
    for at in range(100, 4_000, 100):
        tale.belief("b1", Claim.NO, at, at + 10, epoch=3, leader="n1", subject="raft")
    for at in range(4_100, 7_000, 100):
        tale.belief("b1", Claim.SILENT, at, at + 90, subject="raft")
    tale.belief("b1", Claim.NO, 7_000, 7_010, epoch=4, leader="n2", subject="raft")
    _changed(tale, "alter", "k1", 1, (100, 120), "n1", 1)
    _changed(tale, "alter", "k1", 2, (2_600, 2_640), "n2", 2)
    _changed(tale, "create", "t1", 1, (2_700, 2_750), "n2", 3)
    for at in (3_000, 3_500):
        tale.op("describe", "k1", at=(at, at + 10), node="b1", process=4, result=1)
    tale.op("exists", "t1", at=(3_600, 3_610), node="b1", process=5)
    tale.op("exists", "t1", at=(3_700, 3_720), node="n1", process=6)
    tale.op("exists", "t1", at=(3_800, 3_810), node="n2", process=7, result=1)
    given = facts(system="kraft", nodes=(*NODES, "b1"), electorate=NODES, leadership=bound(1_500, one_leader=True))
    return judged(tale, given, leadership.check, rejoin.check, metadata.check, topic_names.check)


def zombie_brokers_of(**options: Any) -> ReportCase:
    """b1 leads p0 and p1, is cut off from all controllers, and goes on when b2 leads them; p2 stays with b2."""
    tale = Tale()
    severed = tuple(link for n in NODES for link in (f"b1>{n}", f"{n}>b1"))
    tale.fault("partition", ("b1",), (100, 120, 1_400, 1_410), severed=severed)
    for number, key in enumerate(("p0", "p1")):
        tale.op("append", key, 10 + number, at=(10, 15), node="b1", position=0, epoch=1)
        tale.op("poll", key, 0, at=(50, 55), node="b1", result=[[0, 10 + number, 1]], position=1, epoch=1)
        tale.op("poll", key, 1, at=(500, 505), node="b2", result=[], position=1, epoch=2)
        tale.op("append", key, 20 + number, at=(510, 520), node="b2", position=1, epoch=2)
        tale.op("append", key, 30 + number, at=(600, 610), node="b1", position=1, epoch=1)
        tale.op("append", key, 40 + number, at=(620, 1_100), node="b1", type=Outcome.INFO, error="timeout")
        gone = [[1, 30 + number, 1]] if number else []
        tale.op("poll", key, 1, at=(700, 705), node="b1", result=gone, position=1 + number, epoch=1)
        tale.op("poll", key, 1, at=(1_200, 1_205), node="b1", result=gone, position=1 + number, epoch=1)
        tale.op("poll", key, 1, at=(1_500, 1_505), node="b1", type=Outcome.FAIL, error="not-leader-or-follower")
    tale.op("poll", "p2", 0, at=(60, 65), node="b2", result=[], position=0, epoch=0)
    tale.phase(PhaseName.SETTLE, 2_000)
    tale.phase(PhaseName.FINAL, 2_000)
    for number, key in enumerate(("p0", "p1")):
        final = [[0, 10 + number, 1], [1, 20 + number, 2]]
        tale.op("scan", key, 0, at=(2_010, 2_015), node="b2", result=final, position=2, epoch=2)
        tale.op("scan", key, 2, at=(2_020, 2_025), node="b2", result=[], position=2, epoch=2)
    given = facts(system="kraft", nodes=(*NODES, "b1", "b2"), electorate=NODES, options=options)
    return judged(tale, given, log.check, zombie_leaders.check, leadership.check)


CASES: dict[str, Callable[[], ReportCase]] = {
    "zombie-controller": zombie_controller,
    "zombie-brokers": lambda: zombie_brokers_of(acks="1"),
}
