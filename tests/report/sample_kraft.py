"""A judged run of KRaft made by hand: n2 is cut off from its peers, goes on claiming epoch 11, and keeps its broker."""

from typing import Final

from fencepost.harness.history import Claim, EpochEvent, NodeChange, NodeEvent, PhaseEvent, PhaseName
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import Facts, LeadershipBound, Standing, Validity, Verdict, Witness
from fencepost.harness.verdict.figures import CLAIMED, CLAIMED_COUNT, Traced, tally
from fencepost.systems.kafka.figures import Attachment
from fencepost.systems.kafka.kraft import KRAFT
from tests.report.sample import case
from tests.report.tape import MS, S, Tape

CUT, BEGUN, LAST, HEALED, END = 10 * S, 11_600 * MS, 36_600 * MS, 36_700 * MS, 45 * S
SPAN: Final = {
    "node": "n2",
    "incarnation": 0,
    "epoch": Traced(11, (9,)),
    "superseded_by": Traced(13, (7,)),
    "from_ns": Traced(BEGUN + 2 * MS),
    "to_ns": Traced(LAST, (9,)),
    "length_ns": Traced(LAST - BEGUN - 2 * MS, (7, 9)),
    "running_ns": Traced(LAST - BEGUN - 2 * MS, (7, 9)),
    "samples": Traced(250),
}
ATTACHMENT: Final = Attachment(
    broker="b1",
    epoch=Traced(11),
    leader=Traced("n2"),
    superseded_by=Traced(13),
    from_ns=Traced(BEGUN + 2 * MS),
    named_ns=Traced(24_900 * MS, (7, 30)),
    followed_ns=Traced(25_200 * MS, (7, 31)),
    silent=Traced(0),
    stale_describes=tally(range(40, 54)),
    undecided_describes=Traced(0),
    stale_age_ns_max=Traced(24_100 * MS, (32, 40)),
    missed=Traced(1, (32,)),
)


def tape_of() -> Tape:
    """Both layers of n1 to n3 and the broker are asked ten times a second."""
    tape = Tape()
    for number, node in enumerate(("n1", "n2", "n3", "b1")):
        tape.add(NodeEvent, number, node=node, change=NodeChange.STARTED, incarnation=0, pid=4000 + number)
    for phase, at_ns in ((PhaseName.WARM_UP, S), (PhaseName.MAIN, 5 * S), (PhaseName.HEAL, HEALED)):
        tape.add(PhaseEvent, at_ns, phase=phase)
    tape.fault(
        0, "partition", ("n2",), (CUT - 20 * MS, CUT, HEALED, HEALED + 10 * MS), leader="n2", epoch=11, proof="probes"
    )
    tape.add(EpochEvent, S, node="n2", incarnation=0, epoch=11, source="log")
    tape.add(EpochEvent, BEGUN + 40 * MS, node="n1", incarnation=0, epoch=13, source="log")
    for at in range(5 * S, END, 100 * MS):
        old, asleep = at <= LAST, CUT <= at <= LAST
        raft = {"n1": 13 if at >= BEGUN else None, "n2": 11 if old else None, "n3": None}
        for node, epoch in raft.items():
            tape.belief(at, at + 2 * MS, node, Claim.NO if epoch is None else Claim.YES, epoch, subject="raft")
            claims = Claim.NO if epoch is None else Claim.YES
            if node == "n2" and asleep:
                tape.belief(at, at + 400 * MS, node, Claim.SILENT, None, subject="controller")
            else:
                tape.belief(at, at + 3 * MS, node, claims, None, subject="controller", epoch_exact=False)
        named = ("n2", 11) if old else ("n1", 13)
        tape.belief(at, at + 5 * MS, "b1", Claim.NO, named[1], subject="raft", leader=named[0])
    return tape


def kraft_zombie() -> ReportCase:
    history = tape_of().history()
    witness = Witness(
        anomaly="self-fencing-failed",
        events=(*history.faults[0].events, 7, 9),
        steps=("n2 was cut off from every majority, in both directions, for 26.7 s.",),
        from_ns=CUT,
        to_ns=LAST,
        nodes=("n2",),
    )
    cuts = ({"node": "n2", "from_ns": Traced(CUT, (5,)), "to_ns": Traced(HEALED, (6,)), "fault_ids": (0,)},)
    claim = {
        "node": "n2",
        "incarnation": SPAN["incarnation"],
        "epoch": SPAN["epoch"],
        "cut_from_ns": Traced(CUT, (5,)),
        "to_ns": Traced(LAST, (9,)),
        "ran_ns": Traced(LAST - CUT, (5, 9)),
    }
    verdicts = (
        Verdict(checker="leadership", guarantee="no-act", validity=Validity.UNKNOWN, subject="controller"),
        Verdict(
            checker="leadership",
            guarantee="no-act",
            validity=Validity.VALID,
            subject="raft",
            figures={CLAIMED: (SPAN,), CLAIMED_COUNT: Traced(1)},
        ),
        Verdict(
            checker="leadership",
            guarantee="leader-self-fencing",
            validity=Validity.INVALID,
            anomalies={"self-fencing-failed": Traced(1)},
            witnesses=(witness,),
            subject="raft",
            figures={
                "bound_ns": 2500 * MS,
                "limit_running_ns": 4750 * MS,
                "cuts": cuts,
                "claims_in_cuts": (claim,),
                "running_ns_max_when_claimed": Traced(LAST - CUT),
            },
        ),
        Verdict(
            checker="rejoin",
            guarantee="no-disruptive-rejoin",
            validity=Validity.VALID,
            figures={"attachments": (ATTACHMENT,)},
        ),
    )
    facts = Facts(
        system="kraft",
        vocabulary=KRAFT.profile.vocabulary,
        workload="metadata",
        nodes=("n1", "n2", "n3", "b1"),
        electorate=("n1", "n2", "n3"),
        guarantees=(),
        required=("leader-self-fencing",),
        nemesis=("partition:controller",),
        leadership=LeadershipBound(
            bound_ns=2500 * MS, source="Kafka", standing=Standing.PROMISED, one_leader_per_epoch=True
        ),
    )
    return case(history, verdicts, Validity.INVALID, "leader-self-fencing is violated", facts=facts, version="3.6.0")
