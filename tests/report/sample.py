"""Judged runs made by hand for the report's tests: each is small to read, real in shape, and the same every time.

`python -m tests.report.sample FOLDER` writes all of them as HTML, to be looked at.
"""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fencepost.checkers.derived.derive import derive
from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    EpochEvent,
    Event,
    FaultEvent,
    FaultOutcome,
    History,
    NodeChange,
    NodeEvent,
    NoteEvent,
    OpEvent,
    Outcome,
    SampleEvent,
)
from fencepost.harness.report.overview import Lanes, lanes
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import (
    Facts,
    Guarantee,
    LeadershipBound,
    Standing,
    Validity,
    Verdict,
    Vocabulary,
    Witness,
)
from fencepost.harness.verdict.figures import (
    ACTED,
    ASKED,
    CLAIMED,
    CLAIMED_COUNT,
    FENCED,
    POSSIBLE_CLAIMS,
    SERVED,
    UNKNOWN,
    Traced,
)
from tests.report.tape import MS, NODES, S, Tape, beliefs, load

LINEARIZABLE = Guarantee(
    name="linearizable",
    standing=Standing.PROMISED,
    text="Key-value operations take effect in one total order that agrees with real time.",
    source="etcd API guarantees, section Strict serializability",
    known_issue="etcd#13766: 3.5.0 to 3.5.2 may lose applied entries when a member is killed under load",
)
ONE_LEADER = Guarantee(
    name="one-leader-per-epoch",
    standing=Standing.PROMISED,
    text="Of one term there is at most one leader.",
    source="Raft (2014), election safety",
)
FRESH = Guarantee(
    name="fresh-after-sync",
    standing=Standing.RELIED_UPON,
    text="A read behind a sync of the same session sees every write acknowledged before the sync was sent.",
    source="recipes build on it; ZooKeeper Internals says that sync is not a quorum operation",
    known_issue="ZOOKEEPER-1675",
)
SUPERSEDED = Guarantee(
    name="superseded-leader-does-not-act",
    standing=Standing.RELIED_UPON,
    text="Once a later epoch has begun, the leader of an earlier one neither commits nor answers as if current.",
    source="Zab (DSN 2011) for commits; for answers after sync only what recipes assume",
    known_issue="ZOOKEEPER-1675",
)


def lanes_of(history: History, nodes: tuple[str, ...]) -> Lanes:
    """The lanes of a history that belongs to no run."""
    return lanes(history, nodes, derive(history, Facts(system="etcd", workload="register", nodes=nodes, guarantees=())))


def case(history: History, verdicts: tuple[Verdict, ...], validity: Validity, headline: str, **more: Any) -> ReportCase:
    """A case with the run's facts filled in."""
    facts = more.pop("facts")
    run = {
        "seed": 7,
        "system": facts.system,
        "system_version": more.pop("version", "3.5.1"),
        "started_at": "2026-11-21T03:04:05.678Z",
        "machine": {"kernel": "6.1.0-28-amd64", "cores": 2, "git_commit": "ef254d5c0ffee"},
        "sha256": {"etcd": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
        **more.pop("run", {}),
    }
    return ReportCase(
        history=history,
        facts=facts,
        verdicts=verdicts,
        validity=validity,
        headline=headline,
        run=run,
        command="fencepost run --system etcd --workload register --nemesis partition:leader --time-limit 30s --seed 7",
        plan_toml='system = "etcd"\nworkload = "register"\n\n[thresholds]\nexposure_min = 1\n',
        effect_free=frozenset({"read"}),
        folder="/results/etcd-register-kill/20261121T030405.678Z",
        derived=derive(history, facts),
        **more,
    )


def _etcd_facts(**more: Any) -> Facts:
    given: dict[str, Any] = {"guarantees": (LINEARIZABLE, ONE_LEADER), "vocabulary": Vocabulary(epoch="term"), **more}
    return Facts(system="etcd", workload="register", nodes=NODES, **given)


def etcd_valid() -> ReportCase:
    """A leader is cut off, goes on claiming term 2 for a while after term 3 has begun, and does no harm: valid."""
    rng = random.Random(1)
    tape = Tape()
    tape.frame(S, 20 * S, 24 * S)
    tape.fault(
        1,
        "partition",
        ("n1",),
        (6 * S, 6 * S + 12 * MS, 12 * S, 12 * S + 8 * MS),
        leader="n1",
        epoch=2,
        proof="4 of 4 severed links dropped their probes, 2 of 2 others stayed open",
        severed=("n1>n2", "n1>n3", "n2>n1", "n3>n1"),
    )
    tape.fault(
        2,
        "kill",
        ("n2",),
        (15 * S, 15 * S + 30 * MS, 17 * S, 17 * S + 400 * MS),
        leader="n2",
        epoch=3,
        proof="process 4001 is gone",
    )
    tape.add(NodeEvent, 15 * S + 20 * MS, node="n2", change=NodeChange.EXITED, incarnation=0, exit_status=-9)
    tape.add(NodeEvent, 17 * S + 10 * MS, node="n2", change=NodeChange.STARTED, incarnation=1, pid=4101)
    tape.add(EpochEvent, 350 * MS, node="n1", incarnation=0, epoch=2, source="became leader at term 2")
    tape.add(EpochEvent, 7200 * MS, node="n2", incarnation=0, epoch=3, source="became leader at term 3")
    tape.add(EpochEvent, 16100 * MS, node="n3", incarnation=0, epoch=4, source="became leader at term 4")

    def says(node: str, at: int) -> tuple[Claim, int | None]:
        if node == "n2" and 15 * S <= at < 17400 * MS:
            return Claim.SILENT, None
        if node == "n1":
            return (Claim.YES, 2) if at < 8100 * MS else (Claim.NO, 2 if at < 12100 * MS else 3 if at < 16 * S else 4)
        reign = 2 if at < 7200 * MS else 3 if at < 16100 * MS else 4
        return (Claim.YES if (node, reign) in {("n2", 3), ("n3", 4)} else Claim.NO), reign

    beliefs(tape, rng, 24 * S, says, epoch_exact=False)
    load(
        tape,
        rng,
        S,
        23 * S,
        lambda at: 2 if at < 7200 * MS else 3 if at < 16100 * MS else 4,
        lambda node, at: (node == "n1" and 6 * S < at < 12 * S) or (node == "n2" and 15 * S < at < 17300 * MS),
    )
    facts = _etcd_facts(
        nemesis=("partition:leader", "kill"),
        leadership=LeadershipBound(
            bound_ns=2_100 * MS,
            source="CheckQuorum: 2 election time-outs and a tick",
            standing=Standing.PROMISED,
            one_leader_per_epoch=False,
        ),
    )
    history = tape.history()
    verdicts = (
        Verdict(
            checker="linearizability",
            guarantee="linearizable",
            validity=Validity.VALID,
            exposure=Traced(len(history.operations)),
            exposure_of="operations on 4 keys",
            figures={"steps": 10412, "keys": 4, "search_ns": 7 * MS},
        ),
        Verdict(
            checker="leadership",
            guarantee="one-leader-per-epoch",
            validity=Validity.UNKNOWN,
            reason="the source gives a lower bound on the epoch only",
            exposure=Traced(0),
            exposure_of="answers with an exact epoch",
            figures=LEADERSHIP_FIGURES,
        ),
    )
    return case(
        history,
        verdicts,
        Validity.VALID,
        f"{len(history.operations)} operations: no violation of linearizable was found",
        facts=facts,
    )


LEADERSHIP_FIGURES: Final[dict[str, Any]] = {
    CLAIMED: (
        {
            "node": "n1",
            "incarnation": 0,
            "epoch": Traced(2),
            "superseded_by": Traced(3),
            "from_ns": Traced(7200 * MS, (7,)),
            "to_ns": Traced(8001 * MS, (9,)),
            "length_ns": Traced(801 * MS, (7, 9)),
            "running_ns": Traced(801 * MS, (7, 9)),
            "samples": Traced(8),
        },
    ),
    CLAIMED_COUNT: Traced(1),
    "claimed_ns_max": Traced(801 * MS),
    POSSIBLE_CLAIMS: Traced(1),
    ASKED: Traced(9),
    SERVED: Traced(0),
    FENCED: Traced(2),
    UNKNOWN: Traced(7),
    ACTED: Traced(0),
    "two_leaders_ns": Traced(790 * MS),
}


def zookeeper_invalid() -> ReportCase:
    """A paused leader wakes up and answers fresh reads from a superseded epoch: invalid, as the plan requires it."""
    rng = random.Random(2)
    tape = Tape()
    tape.frame(S, 20 * S, 24 * S)
    tape.fault(
        1,
        "pause",
        ("n3",),
        (5 * S, 5 * S + 3 * MS, 12 * S, 12 * S + 2 * MS),
        leader="n3",
        epoch=1,
        proof="all 61 threads of n3 are stopped (T)",
    )
    tape.fault(
        2,
        "pause",
        ("n1",),
        (15 * S, 15 * S + 1 * MS, 18 * S, 18 * S + 2 * MS),
        outcome=FaultOutcome.SKIPPED,
        why="no leader was known",
    )

    def says(node: str, at: int) -> tuple[Claim, int | None]:
        if node == "n3" and 4900 * MS <= at < 11990 * MS:
            return Claim.SILENT, None
        if node == "n3":
            return (Claim.YES, 1) if at < 12150 * MS else (Claim.NO, 2 if at > 12400 * MS else None)
        if 5300 * MS < at < 6800 * MS:
            return Claim.NO, None
        return (Claim.YES if node == "n2" and at > 6800 * MS else Claim.NO), 1 if at < 6 * S else 2

    beliefs(tape, rng, 24 * S, says)
    load(
        tape,
        rng,
        S,
        23 * S,
        lambda at: 1 if at < 6800 * MS else 2,
        lambda node, at: node == "n3" and 5 * S < at < 12400 * MS,
    )
    zxid, old = (2 << 32) | 97, (1 << 32) | 409
    new: dict[str, Any] = {"key": "r1", "value": 4711, "position": zxid, "value_position": zxid, "epoch": 2}
    stale: dict[str, Any] = {"key": "r1", "result": 811, "position": old + 3, "value_position": old, "epoch": 1}
    tape.op(11 * S + 980 * MS, 11 * S + 984 * MS, 900, "write", "n2", **new)
    tape.op(11 * S + 990 * MS, 12 * S + 9 * MS, 901, "read", "n3", session=0x3000A, **stale)
    tape.op(12 * S + 5 * MS, 12 * S + 11 * MS, 902, "read", "n3", session=0x3000B, **stale)
    history = tape.history()
    indexes = tuple(e.index for e in history.events if isinstance(e, OpEvent) and e.process in (900, 901, 902))
    steps = (
        "process 900 wrote r1 := 4711 through n2; it was acknowledged at 11.984 s with zxid 0x200000061, of epoch 2.",
        "process 901 then sent sync and a read of r1 to n3, invoked at 11.990 s, while n3 was paused.",
        "n3 answered 811 at 12.009 s with zxid 0x10000019c, of epoch 1: 4711 had replaced it before.",
        "process 902 was answered the same, invoked after n3 woke up.",
    )
    witness = Witness(
        anomaly="stale-read",
        events=indexes,
        steps=steps,
        from_ns=11 * S + 980 * MS,
        to_ns=12 * S + 11 * MS,
        key="r1",
        nodes=("n2", "n3"),
    )
    facts = Facts(
        system="zookeeper",
        workload="register",
        nodes=NODES,
        vocabulary=Vocabulary(hexadecimal=True),
        guarantees=(FRESH, SUPERSEDED, ONE_LEADER),
        required=("fresh-after-sync",),
        read_guarantee="fresh-after-sync",
        nemesis=("pause:leader",),
    )
    verdicts = (
        Verdict(
            checker="freshness",
            guarantee="fresh-after-sync",
            validity=Validity.INVALID,
            exposure=Traced(14),
            exposure_of="fresh reads of a superseded leader, answered",
            anomalies={"stale-read": Traced(2)},
            witnesses=(witness,),
        ),
        Verdict(
            checker="leadership",
            guarantee="superseded-leader-does-not-act",
            validity=Validity.INVALID,
            exposure=Traced(14),
            exposure_of="operations served after a later epoch had begun",
            anomalies={"stale-answer": Traced(2)},
            witnesses=(witness,),
            figures={**LEADERSHIP_FIGURES, SERVED: Traced(14), ACTED: Traced(2)},
        ),
        Verdict(
            checker="leadership",
            guarantee="one-leader-per-epoch",
            validity=Validity.VALID,
            exposure=Traced(2),
            exposure_of="epochs",
        ),
    )
    return case(
        history,
        verdicts,
        Validity.INVALID,
        "fresh-after-sync (relied-upon) is violated: 2 stale reads",
        facts=facts,
        version="3.9.5",
    )


def unknown() -> ReportCase:
    """Nothing was broken, nothing was put to the test: the fault never took hold."""
    rng = random.Random(3)
    tape = Tape()
    tape.frame(S, 6 * S, 9 * S)
    tape.add(NoteEvent, 5 * S, topic="stopped early", text="SIGTERM came; the final reads were made all the same")
    tape.fault(
        1,
        "partition",
        ("n1",),
        (2 * S, 2 * S + 200 * MS, 4 * S, 4 * S + 9 * MS),
        outcome=FaultOutcome.INDETERMINATE,
        why="3 of 4 probes of severed links still came through",
    )
    tape.add(SampleEvent, 3 * S + 1, loop_lag_ns_max=811 * MS)
    beliefs(tape, rng, 9 * S, lambda node, at: (Claim.YES if node == "n1" else Claim.NO, 2))
    load(tape, rng, S, 8 * S, lambda at: 2, lambda node, at: False)
    facts = _etcd_facts(nemesis=("partition:leader",))
    verdicts = (
        Verdict(
            checker="linearizability",
            guarantee="linearizable",
            validity=Validity.VALID,
            exposure=Traced(500),
            exposure_of="operations",
        ),
        Verdict(
            checker="coverage",
            guarantee="coverage",
            validity=Validity.UNKNOWN,
            reason="0 effective faults where at least 1 was planned: partition was indeterminate",
            exposure=Traced(0),
            exposure_of="effective faults",
        ),
    )
    return case(
        tape.history(),
        verdicts,
        Validity.UNKNOWN,
        "0 effective faults where at least 1 was planned: partition was indeterminate",
        facts=facts,
    )


def empty() -> ReportCase:
    """The cluster never started: no event, no verdict."""
    facts = Facts(system="etcd", workload="register", nodes=NODES, guarantees=())
    return case(History([]), (), Validity.UNKNOWN, "no checker judged linearizable", facts=facts, run={"seed": None})


def huge(operations: int = 200_000) -> ReportCase:
    """A minute at full speed, with a witness in the middle and a rain of failures."""
    rng = random.Random(4)
    events: list[Event] = []
    at = 0
    end_ns = 60 * S
    step = end_ns // operations
    for number in range(operations):
        process, node = number % 10, NODES[number % 3]
        key, f = f"r{number % 50}", "write" if number % 3 else "read"
        at += step
        kind = Outcome.FAIL if rng.random() < 0.05 else Outcome.OK
        common: dict[str, Any] = {"process": process, "f": f, "node": node, "key": key}
        events.append(OpEvent(index=len(events), time_ns=at, type=Outcome.INVOKE, value=number, **common))
        done = at + rng.randrange(step)
        at = max(at, done)
        error = "not-leader" if kind is Outcome.FAIL else None
        events.append(OpEvent(index=len(events), time_ns=at, type=kind, value=number, error=error, epoch=3, **common))
    history = History(events)
    middle = len(events) // 2
    witness = Witness(
        anomaly="lost-update",
        events=(middle, middle + 1),
        steps=("one was lost",),
        from_ns=events[middle].time_ns,
        to_ns=events[middle + 1].time_ns,
    )
    verdicts = (
        Verdict(
            checker="linearizability",
            guarantee="linearizable",
            validity=Validity.INVALID,
            anomalies={"lost-update": Traced(1)},
            witnesses=(witness,),
        ),
    )
    facts = Facts(system="etcd", workload="register", nodes=NODES, guarantees=(LINEARIZABLE,))
    return case(history, verdicts, Validity.INVALID, "linearizable (promised) is violated: 1 lost update", facts=facts)


HOSTILE = "</script><script>alert(1)</script><!--<b onmouseover='x'>\"&\x00\x1b\u2028\ud800"


def hostile() -> ReportCase:
    """Every text that could come from outside tries to be markup."""
    tape = Tape()
    tape.frame(S, 2 * S, 4 * S)
    bad = HOSTILE.replace("\ud800", "")
    tape.op(S + MS, S + 2 * MS, 1, bad, bad, key=bad, value=bad, result=[bad], error=bad)
    tape.op(S + 3 * MS, S + 4 * MS, 2, bad, "n1", key=bad, value={bad: bad}, type=Outcome.INFO, error=bad)
    tape.belief(S, S + MS, bad, Claim.YES, 1, source=bad, detail=bad)
    tape.add(NoteEvent, 2 * S, topic=bad, text=bad)
    tape.fault(1, bad, (bad,), (S, S + 1, S + 2, S + 3), leader=bad, proof=bad, why=bad, severed=(bad,))
    history = tape.history()
    indexes = tuple(e.index for e in history.events if isinstance(e, OpEvent | FaultEvent | BeliefEvent))
    witness = Witness(anomaly=bad, events=indexes, steps=(bad, bad), from_ns=S, to_ns=2 * S, key=bad, nodes=(bad,))
    guarantee = Guarantee(name=bad, standing=Standing.PROMISED, text=bad, source=bad, known_issue=bad)
    facts = Facts(
        system=bad, workload=bad, nodes=(bad, "n1"), guarantees=(guarantee,), read_guarantee=bad, nemesis=(bad,)
    )
    verdicts = (
        Verdict(
            checker=bad,
            guarantee=bad,
            validity=Validity.INVALID,
            reason=bad,
            exposure_of=bad,
            anomalies={bad: Traced(1)},
            witnesses=(witness,),
            figures={bad: ({bad: bad},)},
        ),
    )
    return case(
        history,
        verdicts,
        Validity.INVALID,
        bad,
        facts=facts,
        run={bad: bad, "system_version": bad, "seed": bad, "sha256": {bad: [bad]}},
    )


SAMPLES: dict[str, Callable[[], ReportCase]] = {
    "etcd-valid": etcd_valid,
    "zookeeper-invalid": zookeeper_invalid,
    "unknown": unknown,
    "empty": empty,
    "huge": huge,
    "hostile": hostile,
}


def main() -> None:
    from fencepost.harness.report.page import render

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in SAMPLES.items():
        rendered = render(make())
        (folder / f"{name}.html").write_text(rendered.html, encoding="utf-8")
        print(f"{name}: {len(rendered.html.encode()) / 1e6:.2f} MB, problems: {list(rendered.problems)}")


if __name__ == "__main__":
    main()
