"""What observers read in the nodes' own logs: epochs, and servers that go on without what they need."""

import asyncio
import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.harness.contract.system import Answer, System
from fencepost.harness.history import (
    BROKEN_SERVER,
    CatchUp,
    CatchUpEvent,
    Claim,
    EpochEvent,
    Event,
    LogEvent,
    Logged,
    NoteEvent,
)
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.observer import Observers, _beats
from fencepost.harness.runtime.node import Node
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.zookeeper.system import ZOOKEEPER
from tests.fakes.profile import FAKE_PROFILE
from tests.fakes.virtual_time import run_virtual, virtual_loop

LEADS = (
    "[QuorumController] 07:38:02.123 INFO QuorumState - Completed transition to Leader(localReplicaKey=x, epoch=7,"
    " epochStartOffset=3) from Candidate(localId=1, epoch=7)\n"
)
LACKS = "07:38:03.000 ERROR KafkaApis - java.lang.NoClassDefFoundError: org/apache/kafka/{} at /a/path/of/a/machine\n"


class Records:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, kind: Any, **fields: Any) -> None:
        self.events.append(kind(index=len(self.events), time_ns=0, **fields))

    def now_ns(self) -> int:
        return 1000


def followed(log: Path, written: list[tuple[int, str, int]]) -> list[Event]:
    """What is recorded while texts are appended, each in that run of the server, until there are so many events."""
    node = SimpleNamespace(name="b1", incarnation=0, log=log, place=None)
    system = SimpleNamespace(profile=replace(FAKE_PROFILE, subjects=()), logs=KRAFT.logs)
    records = Records()

    async def follow() -> None:
        observers = Observers(cast(System, system), {"b1": cast(Node, node)}, cast(Recorder, records))
        observers.start()
        for incarnation, text, count in written:
            node.incarnation = incarnation
            with log.open("a") as file:
                file.write(text)
            async with asyncio.timeout(10):
                while len(records.events) < count:
                    await asyncio.sleep(0.01)
        await observers.close()

    asyncio.run(follow())
    return records.events


def test_an_epoch_and_a_missing_class_are_recorded_as_they_are_written(tmp_path: Path) -> None:
    epoch, note = followed(tmp_path / "log", [(0, LEADS, 1), (0, LACKS.format("X"), 2)])
    assert isinstance(epoch, EpochEvent)
    assert (epoch.node, epoch.epoch) == ("b1", 7)
    assert isinstance(note, NoteEvent)
    # The class, and nothing else of the line: a history goes where paths should not.
    assert (note.topic, note.text) == (
        BROKEN_SERVER, "b1: a class is missing: NoClassDefFoundError: org/apache/kafka/X"
    )  # fmt: skip


def test_how_a_node_caught_up_is_recorded(tmp_path: Path) -> None:
    log = tmp_path / "log"
    node = SimpleNamespace(name="n2", incarnation=1, log=log, place=None)
    system = SimpleNamespace(profile=replace(FAKE_PROFILE, subjects=()), logs=ZOOKEEPER.logs)
    records = Records()
    log.write_text("00:00:01.1 INFO Learner Getting a snapshot from leader 0x1\n00:00:01.2 INFO QuorumPeer FOLLOWING\n")

    async def follow() -> None:
        observers = Observers(cast(System, system), {"n2": cast(Node, node)}, cast(Recorder, records))
        observers.start()
        await asyncio.sleep(0)
        await observers.close()

    asyncio.run(follow())
    (event,) = records.events
    assert isinstance(event, CatchUpEvent)
    assert (event.node, event.incarnation, event.change, event.source) == ("n2", 1, CatchUp.SNAPSHOT, "log")


def test_each_reason_is_told_once_for_each_run_of_the_server(tmp_path: Path) -> None:
    lacks = LACKS.format("X")
    written = [(0, lacks * 3, 1), (0, lacks + LACKS.format("Y"), 2), (1, lacks, 3)]
    found = [event.text[-1] for event in followed(tmp_path / "log", written) if isinstance(event, NoteEvent)]
    assert found == ["X", "Y", "X"]


@pytest.mark.parametrize("subjects", [("raft",), ("raft", "controller")])
def test_a_node_is_asked_20_times_a_second_whatever_it_is_asked_about(subjects: tuple[str, ...]) -> None:
    asked: Counter[str] = Counter()
    node = SimpleNamespace(name="n1", incarnation=0, log=Path("no such log"), place=None)
    system = SimpleNamespace(
        profile=replace(FAKE_PROFILE, subjects=subjects),
        logs=None,
        question=lambda _, subject: _Counted(asked, subject),
    )

    async def two_seconds() -> None:
        recorder = SimpleNamespace(record=lambda *_, **__: None, now_ns=lambda: 0)
        observers = Observers(cast(System, system), {"n1": cast(Node, node)}, cast(Recorder, recorder))
        observers.start()
        await asyncio.sleep(1.99)
        await observers.close()

    run_virtual(two_seconds())
    assert set(asked) == set(subjects)
    # The moments are multiples of binary fractions: one more or less is theirs.
    assert all(abs(count - 40 // len(subjects)) <= 1 for count in asked.values()), asked


class _Counted:
    def __init__(self, asked: Counter[str], subject: str) -> None:
        self._asked, self._subject = asked, subject

    async def ask(self) -> Answer:
        self._asked[self._subject] += 1
        return Answer(claims=Claim.NO, source="fake")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("old", "superseded"),
    [
        (Answer(claims=Claim.YES, source="fake", epoch=1), {"n1"}),
        (TimeoutError(), {"n1"}),  # it stands still, and takes itself for the leader when it wakes
        (Answer(claims=Claim.NO, source="fake"), set()),
        (ConnectionRefusedError(), set()),  # nobody is there to take itself for anything
    ],
)
def test_whoever_claimed_to_lead_and_has_not_denied_it_is_superseded_by_a_later_claim(
    old: Answer | Exception, superseded: set[str]
) -> None:
    """A later one by its epoch, and where that is the same (as it is not exact), by time."""
    answers: dict[str, Answer | Exception] = {}
    nodes = {
        name: SimpleNamespace(name=name, incarnation=0, log=Path("no such log"), place=name) for name in ("n1", "n2")
    }
    system = SimpleNamespace(profile=FAKE_PROFILE, logs=None, question=lambda place, _: _Scripted(answers, place))
    clock = itertools.count()

    async def scenario() -> list[frozenset[str]]:
        recorder = SimpleNamespace(record=lambda *_, **__: None, now_ns=lambda: next(clock))
        observers = Observers(cast(System, system), cast(dict[str, Node], nodes), cast(Recorder, recorder))
        observers.start()
        seen = []
        for answers["n1"], answers["n2"] in (
            (Answer(claims=Claim.YES, source="fake", epoch=1), Answer(claims=Claim.NO, source="fake")),
            (old, Answer(claims=Claim.YES, source="fake", epoch=1)),
            (old, Answer(claims=Claim.YES, source="fake", epoch=2)),
        ):
            await asyncio.sleep(0.2)
            seen.append(observers.superseded)
        await observers.close()
        return seen

    assert run_virtual(scenario()) == [frozenset(), superseded, superseded]


class _Scripted:
    def __init__(self, answers: dict[str, Answer | Exception], node: str) -> None:
        self._answers, self._node = answers, node

    async def ask(self) -> Answer:
        answer = self._answers[self._node]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        pass


def test_beats_come_at_the_same_moments_for_everybody_and_skip_those_that_were_missed() -> None:
    every_s = 0.02

    async def beats(late_once_s: float) -> list[float]:
        """When the first six came, in beats since the loop began; someone asks for them half a beat after one."""
        loop = virtual_loop()
        await asyncio.sleep(every_s / 2)
        found: list[float] = []
        async for _ in _beats(every_s):
            found.append(loop.time() / every_s)
            if len(found) == 3:
                loop.stall(late_once_s)
            if len(found) == 6:
                return found
        raise AssertionError("they never end")

    assert run_virtual(beats(0)) == pytest.approx([0.5, 1, 2, 3, 4, 5])
    # The latest that was missed comes at once, those before it never: what was missed is not made up for by a flood.
    assert run_virtual(beats(5.25 * every_s)) == pytest.approx([0.5, 1, 2, 7.25, 8, 9])


def test_a_change_in_a_log_is_recorded_with_the_time_when_it_was_not_there_yet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    place = SimpleNamespace(number=3)
    node = SimpleNamespace(name="n3", incarnation=1, log=log, place=place)
    broker = SimpleNamespace(name="b1", incarnation=2, log=tmp_path / "none", place=SimpleNamespace(number=4))
    system = SimpleNamespace(profile=replace(FAKE_PROFILE, subjects=()), logs=KRAFT.logs)
    records = Records()
    changed = "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 4"
    log.write_text(
        "00:00:01.1 WARN QuorumController - [QuorumController id=3] Renouncing the leadership due to a metadata log"
        " event. We were the leader at epoch 2, but in the new epoch 3, the leader is (none). Reverting to last stable"
        " offset 9.\n"
        f"00:00:01.2 INFO ClusterControlManager - [QuorumController id=3] {changed}:"
        " BrokerRegistrationChangeRecord(brokerId=4, brokerEpoch=7, fenced=1, logDirs=[])\n"
    )

    async def follow() -> None:
        nodes = cast(Any, {"n3": node, "b1": broker})
        observers = Observers(cast(System, system), nodes, cast(Recorder, records))
        observers.start()
        await asyncio.sleep(0.12)
        await observers.close()

    asyncio.run(follow())
    first, second = records.events
    assert isinstance(first, LogEvent)
    assert (first.node, first.incarnation, first.change, first.source) == ("n3", 1, Logged.RESIGNED, "log")
    assert (first.subject, first.epoch, first.position, first.asked_ns) == ("controller", 2, 9, 0)
    assert isinstance(second, LogEvent)
    assert (second.node, second.incarnation, second.change, second.source) == ("b1", 2, Logged.FENCED, "n3's log")
