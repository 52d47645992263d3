"""Facts: how long deriving every table of a history of 100,000 events takes, beyond reading and pairing."""

import random
import statistics
import time
from typing import Any, Final

from bench.figure import Figure, peak_mb
from fencepost.checkers.derived.derive import derive
from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    OpEvent,
    Outcome,
    PhaseEvent,
    PhaseName,
)
from fencepost.harness.verdict import Facts

_EVENTS: Final = 100_000
_LENGTH_NS: Final = 30_000_000_000
_NODES: Final = ("n1", "n2", "n3")
_PROCESSES: Final = 20
_KEYS: Final = 10


def run_like_history(events: int) -> History:
    """Make a run of 30 s: reads and writes of a register store, a poll of each node every 50 ms, three faults.

    The leader changes in each fault and goes on claiming for a moment; one read in a thousand is stale.
    """
    rng = random.Random(1)
    moments: list[tuple[int, type[Event], dict[str, Any]]] = [(0, PhaseEvent, {"phase": PhaseName.MAIN})]
    for at_ns in range(0, _LENGTH_NS, 50_000_000):
        for number, node in enumerate(_NODES):
            moments.append((at_ns + 2_000_000 + number, BeliefEvent, _belief(at_ns + number, node)))
    for fault_id in range(3):
        moments += _fault(fault_id, (5 + 8 * fault_id) * 1_000_000_000)
    moments += _operations(rng, (events - len(moments)) // 2)
    ordered = sorted(moments, key=lambda moment: moment[0])
    return History([kind(index=i, time_ns=ns, **fields) for i, (ns, kind, fields) in enumerate(ordered)])


def _belief(asked_ns: int, node: str) -> dict[str, Any]:
    epoch = asked_ns // 8_000_000_000 + 1
    # For 0.3 s the leader before goes on claiming.
    late = epoch > 1 and asked_ns % 8_000_000_000 < 300_000_000 and node == _NODES[(epoch - 1) % 3]
    leads = late or node == _NODES[epoch % 3]
    return {
        "subject": "leader",
        "node": node,
        "incarnation": 0,
        "claims": Claim.YES if leads else Claim.NO,
        "asked_ns": asked_ns,
        "answered_ns": asked_ns + 2_000_000,
        "source": "status",
        "epoch": epoch - 1 if late else epoch,
    }


def _fault(fault_id: int, at_ns: int) -> list[tuple[int, type[Event], dict[str, Any]]]:
    of = {"fault_id": fault_id, "fault": "pause", "target": "leader", "nodes": (_NODES[fault_id],)}
    inject, heal, begin, end = FaultAction.INJECT, FaultAction.HEAL, FaultStage.BEGIN, FaultStage.END
    steps = (
        (0, inject, begin, FaultOutcome.PENDING),
        (10_000_000, inject, end, FaultOutcome.INSTALLED),
        (4_000_000_000, heal, begin, FaultOutcome.PENDING),
        (4_010_000_000, heal, end, FaultOutcome.HEALED),
    )
    return [
        (at_ns + ns, FaultEvent, {**of, "action": action, "stage": stage, "outcome": outcome})
        for ns, action, stage, outcome in steps
    ]


def _operations(rng: random.Random, number: int) -> list[tuple[int, type[Event], dict[str, Any]]]:
    moments: list[tuple[int, type[Event], dict[str, Any]]] = []
    newest = [0] * _KEYS
    step_ns = _LENGTH_NS // number
    for i in range(number):
        key, node, at_ns = rng.randrange(_KEYS), rng.choice(_NODES), i * step_ns
        of: dict[str, Any] = {"process": i % _PROCESSES, "f": rng.choice(("read", "write")), "node": node}
        of["key"] = f"r{key}"
        ended = {"position": i + 1, "epoch": at_ns // 8_000_000_000 + 1, "session": i % _PROCESSES}
        if of["f"] == "write":
            newest[key] = i + 1
        seen = max(0, newest[key] - 500) if of["f"] == "read" and rng.random() < 0.001 else newest[key]
        value = seen - 1
        moments.append((at_ns, OpEvent, {**of, "type": Outcome.INVOKE, "value": value}))
        # Before the process's next operation.
        done_ns = at_ns + rng.randrange(step_ns // 2, step_ns * (_PROCESSES - 1))
        moments.append((done_ns, OpEvent, {**of, **ended, "type": Outcome.OK, "value": value, "value_position": seen}))
    return moments


def run(repeats: int = 7) -> list[Figure]:
    events = run_like_history(_EVENTS).events
    before_mb = peak_mb()
    facts = Facts(system="etcd", workload="register", nodes=_NODES, guarantees=(), subjects=("leader",))
    lengths_s = []
    for _ in range(repeats):
        # What was derived from a history is kept with it: each time another one.
        history = History(events)
        assert history.operations
        assert history.faults
        began = time.process_time()
        derive(history, facts)
        lengths_s.append(time.process_time() - began)
    return [
        Figure(
            "facts of 100,000 events",
            statistics.median(lengths_s),
            "s",
            "at most 0.5 s",
            f"CPU time of every table, beyond reading and pairing; {len(events)} events, median of {repeats}, "
            f"{min(lengths_s):.2f} to {max(lengths_s):.2f} s; {peak_mb() - before_mb:.0f} MB more at the peak",
        )
    ]
