"""Histories written by hand: events in any order, a cluster's frame, a load, and what nodes say of the lead."""

import random
from collections.abc import Callable
from typing import Any

from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    NodeChange,
    NodeEvent,
    OpEvent,
    Outcome,
    PhaseEvent,
    PhaseName,
    SampleEvent,
)

MS = 1_000_000
S = 1_000 * MS
NODES = ("n1", "n2", "n3")


class Tape:
    """Collects events with their times in any order and gives the validated history."""

    def __init__(self) -> None:
        self._made: list[tuple[int, int, Callable[[int], Event]]] = []

    def add(self, kind: type[Any], at_ns: int, **fields: Any) -> None:
        self._made.append((at_ns, len(self._made), lambda i: kind(index=i, time_ns=at_ns, **fields)))

    def history(self) -> History:
        return History([make(i) for i, (_, _, make) in enumerate(sorted(self._made, key=lambda m: m[:2]))])

    def op(
        self,
        from_ns: int,
        to_ns: int | None,
        process: int,
        f: str,
        node: str,
        *,
        key: str | None = "r1",
        value: Any = None,
        result: Any = None,
        type: Outcome = Outcome.OK,
        error: str | None = None,
        **reply: Any,
    ) -> None:
        self.add(OpEvent, from_ns, type=Outcome.INVOKE, process=process, f=f, node=node, key=key, value=value)
        if to_ns is not None:
            given = result if result is not None else value
            self.add(
                OpEvent, to_ns, type=type, process=process, f=f, node=node, key=key, value=given, error=error, **reply
            )

    def belief(self, asked_ns: int, answered_ns: int, node: str, claims: Claim, epoch: int | None, **more: Any) -> None:
        fields: dict[str, Any] = {"subject": "leader", "incarnation": 0, "source": "sample", **more}
        self.add(
            BeliefEvent,
            answered_ns,
            node=node,
            claims=claims,
            asked_ns=asked_ns,
            answered_ns=answered_ns,
            epoch=epoch,
            **fields,
        )

    def fault(
        self, number: int, fault: str, nodes: tuple[str, ...], times: tuple[int, int, int, int], **more: Any
    ) -> None:
        """Times: inject begins, is proven, heal begins, is done."""
        outcome = more.pop("outcome", FaultOutcome.INSTALLED)
        proof = more.pop("proof", None)
        common = {"fault_id": number, "fault": fault, "nodes": nodes, "target": "leader", **more}
        steps = (
            (FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING, None),
            (FaultAction.INJECT, FaultStage.END, outcome, proof),
            (FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING, None),
            (FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED, None),
        )
        for at_ns, (action, stage, said, shown) in zip(times, steps, strict=True):
            self.add(FaultEvent, at_ns, action=action, stage=stage, outcome=said, proof=shown, **common)

    def frame(self, main_ns: int, heal_ns: int, end_ns: int) -> None:
        """Servers start, phases begin, the harness is healthy."""
        for number, node in enumerate(NODES):
            self.add(NodeEvent, number, node=node, change=NodeChange.STARTED, incarnation=0, pid=4000 + number)
            self.add(NodeEvent, 300 * MS + number, node=node, change=NodeChange.READY, incarnation=0, pid=4000 + number)
        at = {
            PhaseName.WARM_UP: 400 * MS,
            PhaseName.MAIN: main_ns,
            PhaseName.HEAL: heal_ns,
            PhaseName.SETTLE: heal_ns + 50 * MS,
            PhaseName.WATCH: heal_ns + 700 * MS,
            PhaseName.FINAL: end_ns - 300 * MS,
        }
        for phase, at_ns in at.items():
            self.add(PhaseEvent, at_ns, phase=phase)
        for at_ns in range(S, end_ns, 250 * MS):
            self.add(
                SampleEvent, at_ns, loop_lag_ns_max=400_000 + at_ns % 977 * 1000, cpu_stall_ns=at_ns % 13 * 100_000
            )


def load(
    tape: Tape,
    rng: random.Random,
    from_ns: int,
    to_ns: int,
    epoch_at: Callable[[int], int],
    deaf: Callable[[str, int], bool],
    *,
    every_ns: int = 12 * MS,
) -> None:
    """Nine processes that read and write by turns; a deaf node lets a request time out after 500 ms, as unknown."""
    process = {worker: worker for worker in range(9)}
    free = dict.fromkeys(range(9), from_ns)
    value = 0
    at = from_ns
    while at < to_ns:
        worker = min(free, key=lambda w: (free[w], w))
        at = max(at + rng.randrange(every_ns // 2, every_ns), free[worker])
        node = NODES[worker % 3]
        value += 1
        f = rng.choice(("read", "read", "write", "cas"))
        took = int(rng.expovariate(1 / 2.5) * MS) + MS
        given: Any = {"read": None, "write": value, "cas": [value - 1, value]}[f]
        key = f"r{rng.randrange(4)}"
        if deaf(node, at):
            kind = Outcome.FAIL if f == "read" else Outcome.INFO
            tape.op(
                at, at + 500 * MS, process[worker], f, node, key=key, value=given, type=kind, error="deadline-exceeded"
            )
            free[worker] = at + 500 * MS + 1
            process[worker] += 9 if kind is Outcome.INFO else 0
        elif f == "cas" and rng.random() < 0.5:
            tape.op(
                at,
                at + took,
                process[worker],
                f,
                node,
                key=key,
                value=given,
                type=Outcome.FAIL,
                error="cas-mismatch",
                epoch=epoch_at(at),
            )
            free[worker] = at + took + 1
        else:
            result = value - 1 if f == "read" else None
            tape.op(
                at,
                at + took,
                process[worker],
                f,
                node,
                key=key,
                value=given,
                result=result,
                position=value,
                epoch=epoch_at(at),
            )
            free[worker] = at + took + 1


def beliefs(
    tape: Tape, rng: random.Random, to_ns: int, says: Callable[[str, int], tuple[Claim, int | None]], **more: Any
) -> None:
    for number, node in enumerate(NODES):
        for asked in range(500 * MS + number * 7 * MS, to_ns, 100 * MS):
            claims, epoch = says(node, asked)
            took = 400 * MS if claims is Claim.SILENT else rng.randrange(MS, 4 * MS)
            if asked + took < to_ns:
                tape.belief(asked, asked + took, node, claims, epoch, **more)
