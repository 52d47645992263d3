"""Short histories in a few lines: events are told in any order, in milliseconds, and put in order of time.

tale = Tale()
tale.claim("n1", 3, 100, 110)                     # asked at 100 ms, answered at 110 ms: leads, epoch 3
tale.write("a", 1, node="n1", at=(120, 130), position=7, epoch=3)
history = tale.history()
"""

from typing import Any

from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    Clock,
    ClockEvent,
    Effects,
    EpochEvent,
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
from fencepost.harness.verdict import Facts, Guarantee, LeadershipBound, Standing, Verdict

MS = 1_000_000
NODES = ("n1", "n2", "n3")


def ns(ms: float) -> int:
    return round(ms * MS)


def facts(**changes: Any) -> Facts:
    """Facts of an imaginary three-node system whose reads are linearizable."""
    promised = ("linearizable", "superseded-leader-does-not-act", "leader-self-fencing", "one-leader-per-epoch")
    given: dict[str, Any] = {
        "system": "imaginary",
        "workload": "register",
        "nodes": NODES,
        "guarantees": tuple(
            Guarantee(name=name, standing=Standing.PROMISED, text=name, source="a test") for name in promised
        ),
    }
    return Facts(**{**given, **changes})


def bound(ms: float | None, *, one_leader: bool = False, standing: Standing = Standing.PROMISED) -> LeadershipBound:
    return LeadershipBound(
        bound_ns=None if ms is None else ns(ms), source="a test", standing=standing, one_leader_per_epoch=one_leader
    )


def only(verdicts: list[Verdict], guarantee: str) -> Verdict:
    """The one verdict on `guarantee`."""
    found = [v for v in verdicts if v.guarantee == guarantee]
    assert len(found) == 1, [v.guarantee for v in verdicts]
    return found[0]


class Tale:
    """Collects events; `history()` gives them indexes in the order of time, first told first at equal times."""

    def __init__(self) -> None:
        self._told: list[tuple[int, int, type[Event], dict[str, Any]]] = []
        self._process = 0
        self._faults = 0

    def tell(self, kind: type[Event], at_ms: float, **fields: Any) -> None:
        self._told.append((ns(at_ms), len(self._told), kind, fields))

    def history(self) -> History:
        ordered = sorted(self._told, key=lambda t: t[:2])
        return History([kind(index=i, time_ns=t, **fields) for i, (t, _, kind, fields) in enumerate(ordered)])

    # Operations: each of a process of its own unless one is given

    def op(
        self,
        f: str,
        key: str | None,
        value: Any = None,
        *,
        at: tuple[float, float | None],
        node: str = "n1",
        type: Outcome = Outcome.OK,
        process: int | None = None,
        result: Any = None,
        **stamps: Any,
    ) -> int:
        """An operation invoked and completed `at` these times (never, when the second is None); gives its process."""
        if process is None:
            self._process += 1
            process = 1000 + self._process
        self.tell(OpEvent, at[0], type=Outcome.INVOKE, process=process, f=f, node=node, key=key, value=value)
        if at[1] is not None:
            answer = result if result is not None else value
            self.tell(OpEvent, at[1], type=type, process=process, f=f, node=node, key=key, value=answer, **stamps)
        return process

    def write(self, key: str, value: Any, *, at: tuple[float, float | None], **more: Any) -> int:
        return self.op("write", key, value, at=at, **more)

    def read(self, key: str, result: Any, *, at: tuple[float, float | None], **more: Any) -> int:
        return self.op("read", key, at=at, result=result, **more)

    # Beliefs and logs

    def belief(
        self, node: str, claims: Claim, asked: float, answered: float, *, epoch: int | None = None, **more: Any
    ) -> None:
        fields: dict[str, Any] = {"subject": "leader", "incarnation": 0, "source": "a test"}
        self.tell(
            BeliefEvent,
            answered,
            node=node,
            claims=claims,
            asked_ns=ns(asked),
            answered_ns=ns(answered),
            epoch=epoch,
            **{**fields, **more},
        )

    def claim(self, node: str, epoch: int | None, asked: float, answered: float, **more: Any) -> None:
        self.belief(node, Claim.YES, asked, answered, epoch=epoch, **more)

    def claims(self, node: str, epoch: int, times: list[float], *, length: float = 1, **more: Any) -> None:
        """A claim asked at each of `times`, answered `length` ms later."""
        for at in times:
            self.claim(node, epoch, at, at + length, **more)

    def deny(self, node: str, asked: float, answered: float, **more: Any) -> None:
        self.belief(node, Claim.NO, asked, answered, **more)

    def log(self, node: str, epoch: int, read_at: float, incarnation: int = 0) -> None:
        self.tell(EpochEvent, read_at, node=node, incarnation=incarnation, epoch=epoch, source="log")

    # Faults, nodes, phases, the harness's health

    def fault(
        self,
        fault: str,
        nodes: tuple[str, ...],
        at: tuple[float, float, float | None, float | None],
        *,
        severed: tuple[str, ...] = (),
        outcome: FaultOutcome = FaultOutcome.INSTALLED,
        effects: Effects | None = None,
        details: dict[str, str | int | float | bool] | None = None,
        target: str = "leader",
        healed: FaultOutcome = FaultOutcome.HEALED,
    ) -> int:
        """`at`: inject begins, is proven; heal begins, is proven. A heal of None never came.

        Without `effects` the events are those of a history of version 1, and the fault's name says what it does.
        """
        fault_id, self._faults = self._faults, self._faults + 1
        same = {"fault_id": fault_id, "fault": fault, "target": target, "nodes": nodes, "severed": severed}
        same |= {"effects": effects, "details": details or {}}
        steps = (
            (FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING),
            (FaultAction.INJECT, FaultStage.END, outcome),
            (FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING),
            (FaultAction.HEAL, FaultStage.END, healed),
        )
        for when, (action, stage, result) in zip(at, steps, strict=True):
            if when is not None:
                self.tell(FaultEvent, when, action=action, stage=stage, outcome=result, **same)
        return fault_id

    def pause(self, node: str, from_ms: float, to_ms: float) -> None:
        """Stopped for certain exactly from `from_ms` to `to_ms`."""
        self.fault("pause", (node,), (from_ms, from_ms, to_ms, to_ms))

    def cut(self, node: str, from_ms: float, to_ms: float, *, direction: str = "both") -> None:
        """All links between `node` and the others certainly cut from `from_ms` to `to_ms`."""
        out = tuple(f"{node}>{other}" for other in NODES if other != node)
        back = tuple(f"{other}>{node}" for other in NODES if other != node)
        severed = {"both": out + back, "out": out, "in": back}[direction]
        self.fault("partition", (node,), (from_ms, from_ms, to_ms, to_ms), severed=severed)

    def clock(self, node: str, clock: Clock, at: tuple[float, float], **more: Any) -> None:
        """Changed somewhere in `at`; offsets and the strobe's times in `more` are in ms, and called so."""
        fields = {name.removesuffix("_ms") + "_ns": ns(more.pop(name)) for name in list(more) if name.endswith("_ms")}
        fields = {"since_ns": ns(at[0]), **fields}
        self.tell(ClockEvent, at[1], node=node, clock=clock, incarnation=0, asked_ns=ns(at[0]), **fields, **more)

    def node(self, node: str, change: NodeChange, at_ms: float, incarnation: int = 0, **more: Any) -> None:
        self.tell(NodeEvent, at_ms, node=node, change=change, incarnation=incarnation, **more)

    def phase(self, phase: PhaseName, at_ms: float) -> None:
        self.tell(PhaseEvent, at_ms, phase=phase)

    def health(self, from_ms: float, to_ms: float, step_ms: float = 500, lag_ms: float = 1) -> None:
        """Samples at every step, each with the same lateness."""
        at_ms = from_ms
        while at_ms <= to_ms:
            self.sample(at_ms, lag_ms=lag_ms)
            at_ms += step_ms

    def sample(self, at_ms: float, *, lag_ms: float = 1, cpu_stall_ms: float | None = None, **more: Any) -> None:
        stall = None if cpu_stall_ms is None else ns(cpu_stall_ms)
        self.tell(SampleEvent, at_ms, loop_lag_ns_max=ns(lag_ms), cpu_stall_ns=stall, **more)


def assert_each_had_a_chance(verdict: Verdict) -> None:
    """Whatever anomaly was found, its rule had counted something that could show it."""
    chances = {rule.name: rule.chances for rule in verdict.rules}
    for anomaly in verdict.anomalies:
        assert chances[anomaly] > 0, (anomaly, chances, verdict.witnesses[:1])
