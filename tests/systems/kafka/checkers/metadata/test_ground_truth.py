"""Logs on disk against the history, for a quorum in memory. The cases are in `tests/cases/kafka-ground-truth.case`."""

import random
from typing import Any

import pytest

from fencepost.harness.history import History, LogEntry, NodeLog, Outcome
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.checkers.metadata import ground_truth
from tests.checkers.build import NODES, Tale, facts, only

FACTS = facts(nodes=(*NODES, "b1"), electorate=NODES)

#: An entry in one word: "3:k=7" a setting, "3:t5" a name, "3:-" nothing of anybody's; 3 is the epoch.
Words = str


def log(node: str, words: Words, start: int = 0, **more: Any) -> NodeLog:
    entries = []
    for offset, word in enumerate(words.split(), start):
        epoch, _, rest = word.partition(":")
        key, equals, value = rest.partition("=")
        if equals:
            kind, fields = "config", {"resource_name": key, "value": value}
        else:
            kind, fields = ("no-op", {}) if rest == "-" else ("topic", {"name": rest})
        entries.append(LogEntry(offset=offset, epoch=int(epoch), type=kind, fields=fields))
    return NodeLog(node=node, start_offset=start, entries=tuple(entries), **more)


def quorum_run(seed: int) -> tuple[History, dict[str, list[tuple[int, str]]]]:
    """Three voters that elect, replicate and truncate as Raft does; changes end ok, info, or are never answered."""
    drawn = random.Random(seed)
    logs: dict[str, list[tuple[int, str]]] = {node: [] for node in NODES}
    tale = Tale()
    epoch, leader = 1, "n1"
    for value in range(1, 61):
        at = 10 * value
        up_to_date = [
            node
            for node in NODES
            if sum((ours := logs[node])[-1:] >= other[-1:] and len(ours) >= len(other) for other in logs.values()) >= 2
        ]
        if drawn.random() < 0.1 and up_to_date:
            leader, epoch = drawn.choice(up_to_date), epoch + 1
            logs[leader].append((epoch, "-"))
        logs[leader].append((epoch, f"k={value}"))
        reached = drawn.sample([node for node in NODES if node != leader], drawn.choice([0, 1, 1, 2]))
        for node in reached:
            logs[node] = list(logs[leader])
        acknowledged = bool(reached) and drawn.random() < 0.8
        outcome = Outcome.OK if acknowledged else Outcome.INFO
        tale.op("alter", "k", value, at=(at, at + 5), type=outcome)
    history = tale.history()
    history.logs = kept(logs)
    return history, logs


def kept(logs: dict[str, list[tuple[int, str]]]) -> dict[str, NodeLog]:
    return {node: log(node, " ".join(f"{epoch}:{what}" for epoch, what in own)) for node, own in logs.items()}


@pytest.mark.parametrize("seed", range(200))
def test_a_correct_quorum_passes_and_a_forgetful_one_does_not(seed: int) -> None:
    history, logs = quorum_run(seed)
    assert all(v.validity is Validity.VALID for v in ground_truth.check(history, FACTS)), seed
    acknowledged = [o.value for o in history.operations if o.type is Outcome.OK]
    value = random.Random(seed).choice(acknowledged)
    holders = [node for node in NODES if any(what == f"k={value}" for _, what in logs[node])]
    # Forgotten by enough voters, in its place something of the same leader.
    for node in holders[: len(holders) - 1]:
        logs[node] = [(epoch, "-" if what == f"k={value}" else what) for epoch, what in logs[node]]
    history.logs = kept(logs)
    verdicts = ground_truth.check(history, FACTS)
    assert only(verdicts, "metadata-durable").counts == {"lost-acknowledged-change": 1}
    assert only(verdicts, "metadata-log-agrees").counts["logs-differ"] >= 1
