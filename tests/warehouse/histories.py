"""Random histories of a small cluster.

The generator plays clients, polls, elections and faults over one clock. It aims at the corners: processes that never
complete, polls that overlap a pause, equal times, leaders that go on claiming, unknown epochs.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    EpochEvent,
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    NodeChange,
    NodeEvent,
    OpEvent,
    Outcome,
    PhaseEvent,
    PhaseName,
    SampleEvent,
    validate,
)
from fencepost.harness.results.columns import write_parquet

MS = 1_000_000
NODES = ("n1", "n2", "n3")


class _Cluster:
    """Events with the times at which they are to be recorded; `events` puts them in order."""

    def __init__(self, rng: random.Random, length_ms: int) -> None:
        self.rng = rng
        self.length_ns = length_ms * MS
        self.moments: list[tuple[int, int, type[Event], dict[str, Any]]] = []
        self.epochs: list[tuple[int, str, int]] = [(0, rng.choice(NODES), 1)]
        self.position = 0

    def add(self, at_ns: int, kind: type[Event], **fields: Any) -> None:
        self.moments.append((max(0, at_ns), len(self.moments), kind, fields))

    def events(self) -> list[Event]:
        ordered = sorted(self.moments, key=lambda moment: moment[:2])
        events = []
        for index, (at, _, kind, fields) in enumerate(ordered):
            if kind is BeliefEvent:
                fields["answered_ns"] = at
            events.append(kind(index=index, time_ns=at, **fields))
        validate(events)
        return events

    def elections(self) -> None:
        at, epoch = 0, 1
        while (at := at + int(self.rng.uniform(0.1, 0.5) * self.length_ns)) < self.length_ns:
            epoch += self.rng.randint(1, 3)
            leader = self.rng.choice(NODES)
            self.epochs.append((at, leader, epoch))
            self.add(
                at + self.rng.randrange(50) * MS, EpochEvent, node=leader, incarnation=0, epoch=epoch, source="log"
            )

    def epoch_at(self, node: str, at_ns: int, late_ns: int) -> tuple[str, int]:
        """The leader and epoch that `node` believes in; up to `late_ns` behind the truth."""
        seen_ns = at_ns - self.rng.randrange(late_ns + 1)
        known = [entry for entry in self.epochs if entry[0] <= seen_ns] or self.epochs[:1]
        return known[-1][1], known[-1][2]

    def polls(self) -> None:
        for node in NODES:
            for asked in range(self.rng.randrange(20) * MS, self.length_ns, 40 * MS):
                answered = asked + self.rng.choice((1, 2, 30, 150)) * MS
                leader, epoch = self.epoch_at(node, asked, self.rng.choice((0, 0, 300 * MS)))
                exact = self.rng.random() < 0.8
                draw = self.rng.random()
                claims = Claim.SILENT if draw < 0.1 else Claim.YES if leader == node else Claim.NO
                self.add(
                    answered,
                    BeliefEvent,
                    subject="leader",
                    node=node,
                    incarnation=0,
                    claims=claims,
                    asked_ns=asked,
                    source="poll",
                    epoch=None if claims is Claim.SILENT or draw > 0.97 else epoch if exact else epoch - 1,
                    epoch_exact=exact,
                )

    def faults(self) -> None:
        for fault_id in range(self.rng.randrange(5)):
            node = self.rng.choice(NODES)
            kind = self.rng.choice(("pause", "partition", "kill"))
            began = self.rng.randrange(self.length_ns)
            outcome = self.rng.choice((FaultOutcome.INSTALLED, FaultOutcome.INSTALLED, FaultOutcome.SKIPPED))
            common: dict[str, Any] = {"fault_id": fault_id, "fault": kind, "target": "one", "nodes": (node,)}
            proven = began + self.rng.randrange(30) * MS
            inject, begin, end = FaultAction.INJECT, FaultStage.BEGIN, FaultStage.END
            self.add(began, FaultEvent, action=inject, stage=begin, outcome=FaultOutcome.PENDING, **common)
            self.add(proven, FaultEvent, action=inject, stage=end, outcome=outcome, proof="seen", **common)
            if outcome is FaultOutcome.SKIPPED or self.rng.random() < 0.15:
                continue
            healing = proven + self.rng.randrange(1, 400) * MS
            healed = healing + self.rng.randrange(20) * MS
            common["action"] = FaultAction.HEAL
            self.add(healing, FaultEvent, stage=begin, outcome=FaultOutcome.PENDING, **common)
            self.add(healed, FaultEvent, stage=end, outcome=FaultOutcome.HEALED, **common)

    def phases(self) -> None:
        for number, phase in enumerate(PhaseName):
            self.add(number * self.length_ns // len(PhaseName), PhaseEvent, phase=phase)
        for node in NODES:
            self.add(0, NodeEvent, node=node, change=NodeChange.STARTED, incarnation=0, pid=1)
        if self.rng.random() < 0.4:
            node, at = self.rng.choice(NODES), self.rng.randrange(self.length_ns)
            self.add(at, NodeEvent, node=node, change=NodeChange.EXITED, incarnation=0, exit_status=-9, expected=False)
            if self.rng.random() < 0.5:
                self.add(at + 100 * MS, NodeEvent, node=node, change=NodeChange.STARTED, incarnation=1, pid=2)
        self.add(self.length_ns // 2, SampleEvent, loop_lag_ns_max=5, node_cpu_ns={"n1": 3})

    def clients(self, operations: int, keys: int, lanes: int) -> None:
        for lane in range(lanes):
            at, process = self.rng.randrange(10) * MS, lane
            for _ in range(operations // lanes):
                at, alive = self._operation(process, at, self.rng.randrange(keys))
                process = process if alive else process + lanes

    def _operation(self, process: int, at: int, key: int) -> tuple[int, bool]:
        """Returns when the lane goes on, and whether the process may."""
        rng = self.rng
        node = rng.choice(NODES)
        f = rng.choice(("read", "read", "write", "cas", "sync"))
        of: dict[str, Any] = {"process": process, "f": f, "node": node, "key": None if f == "sync" else f"k{key}"}
        self.add(at, OpEvent, type=Outcome.INVOKE, **of)
        done = at + rng.choice((0, 1, 2, 3, 20, 200)) * MS
        draw = rng.random()
        if draw < 0.03:
            return at + 50 * MS, False
        outcome = Outcome.INFO if draw < 0.1 else Outcome.FAIL if draw < 0.2 else Outcome.OK
        if outcome is not Outcome.OK:
            self.add(done, OpEvent, type=outcome, error=rng.choice(("timeout", "refused")), **of)
            return done + MS, outcome is not Outcome.INFO
        self.position += 1
        behind = rng.choice((0, 0, 0, 0, 1, 5))
        position = max(1, self.position - behind)
        self.add(
            done,
            OpEvent,
            type=outcome,
            value=7,
            position=position if rng.random() < 0.9 else None,
            value_position=max(1, position - rng.randrange(3)) if f != "sync" and rng.random() < 0.9 else None,
            epoch=self.epoch_at(node, done, rng.choice((0, 300 * MS)))[1] if rng.random() < 0.8 else None,
            session=rng.choice((None, process, process + 100)),
            **of,
        )
        return done + rng.choice((0, 1, 5)) * MS, True


def random_history(
    seed: int, *, operations: int = 120, length_ms: int = 1500, keys: int = 3, lanes: int = 6
) -> list[Event]:
    """A valid history, the same for the same arguments; each of the `lanes` plays one process after another."""
    cluster = _Cluster(random.Random(seed), length_ms)
    cluster.phases()
    cluster.elections()
    cluster.faults()
    cluster.polls()
    cluster.clients(operations, keys, lanes)
    return cluster.events()


def store(events: Sequence[Event], path: Path) -> str:
    """Write the events as the harness seals them; returns the path as text."""
    write_parquet(events, path)
    return str(path)
