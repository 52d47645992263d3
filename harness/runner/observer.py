"""Beliefs: one observer per node asks that node alone whether it leads, 20 times a second, whatever else happens.

Where a node has two subjects, such as two layers, each is asked 10 times a second. A few questions may be open at once:
a paused node answers them as soon as it wakes, which is when a superseded leader is most interesting; more would flood
it. A question without an answer by its deadline is recorded as `silent`. The node's log is read as well: only it says
in exactly which epoch a node came to lead, and that a server goes on without something that it needs.
"""

import asyncio
import functools
import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.contract.logs import (
    Attempt,
    BecameLeader,
    CaughtUp,
    Failed,
    LoggedChange,
    LogReader,
    Reached,
    TookOver,
)
from fencepost.harness.contract.system import Answer, Question, System
from fencepost.harness.history import (
    BROKEN_SERVER,
    AttemptEvent,
    BeliefEvent,
    CatchUpEvent,
    Claim,
    EpochEvent,
    LogEvent,
    NoteEvent,
    log_of,
)
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.watch import LastAnswers
from fencepost.harness.runtime.node import Node
from fencepost.harness.runtime.server_log import LogFollower

POLL_S: Final = 0.05
QUESTIONS_MAX: Final = 4
ANSWER_DEADLINE_S: Final = 1.0
#: A belief older than this is not current.
FRESH_NS: Final = 1_000_000_000


@dataclass(slots=True)
class _Latest:
    claims: Claim = Claim.SILENT
    epoch: int | None = None
    asked_ns: int = -1
    answered_ns: int = -1


class Observers:
    """All observers of a run. `leader()` is their present knowledge; every answer goes into the history."""

    def __init__(self, system: System, nodes: Mapping[str, Node], recorder: Recorder) -> None:
        self._system = system
        self._nodes = nodes
        self._recorder = recorder
        self._latest = {name: _Latest() for name in nodes}
        #: The last answer of each node about each subject.
        self.answers = LastAnswers()
        #: Nodes that claimed to lead and have not denied it since: the epoch, and the time of the claim.
        self._claims: dict[str, tuple[int, int]] = {}
        #: Nodes that claimed to lead and have not denied it, although another node has claimed it since.
        self.superseded: frozenset[str] = frozenset()
        self._tasks: list[asyncio.Task[None]] = []
        self._broken: set[tuple[str, int, str]] = set()

    def start(self) -> None:
        """Start asking nodes and reading logs. Called once, inside the event loop."""
        for node in self._nodes.values():
            for subject in self._system.profile.subjects:
                question = self._system.question(node.place, subject)
                if question is not None:
                    if node.incarnation >= 0:
                        self.answers.expect(subject, node.name)
                    work = self._observe(node, subject, question)
                    self._tasks.append(asyncio.create_task(work, name=f"observer of {subject} at {node.name}"))
            if self._system.logs is not None:
                reader = LogReader(self._system.logs)
                self._tasks.append(asyncio.create_task(self._follow_log(node, reader), name=f"log of {node.name}"))

    async def close(self) -> None:
        """Stop asking; read the rest of the logs. Idempotent."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def failed(self) -> BaseException | None:
        """Return the exception that ended an observer, if any: a defect of the harness, not silence of the node."""
        return next((t.exception() for t in self._tasks if t.done() and not t.cancelled() and t.exception()), None)

    def leader(self) -> tuple[str | None, int | None]:
        """Return the node that last claimed to lead in the highest epoch, and that epoch; (None, None) if none does."""
        now_ns = self._recorder.now_ns()
        claims = [
            (latest.epoch if latest.epoch is not None else -1, latest.answered_ns, name)
            for name, latest in self._latest.items()
            if latest.claims is Claim.YES and now_ns - latest.answered_ns < FRESH_NS
        ]
        if not claims:
            return None, None
        epoch, _, name = max(claims)
        return name, None if epoch < 0 else epoch

    def leader_of(self, subject: str) -> str | None:
        """Return the node that lately claimed to lead this subject in the highest epoch; None when none did."""
        return self.answers.leader(subject, self._recorder.now_ns() - FRESH_NS)

    async def _observe(self, node: Node, subject: str, question: Question) -> None:
        outstanding: set[asyncio.Task[None]] = set()
        try:
            async for _ in _beats(POLL_S * len(self._system.profile.subjects)):
                if node.incarnation >= 0 and len(outstanding) < QUESTIONS_MAX:
                    task = asyncio.create_task(self._ask(node, subject, question))
                    outstanding.add(task)
                    task.add_done_callback(outstanding.discard)
        finally:
            for task in outstanding:
                task.cancel()
            await asyncio.gather(*outstanding, return_exceptions=True)
            await question.close()

    async def _ask(self, node: Node, subject: str, question: Question) -> None:
        asked_ns = self._recorder.now_ns()
        incarnation = max(node.incarnation, 0)
        gone = False
        try:
            async with asyncio.timeout(ANSWER_DEADLINE_S):
                answer = await question.ask()
        except Exception as error:
            # Whatever went wrong, the node did not answer: that is recorded, with the reason.
            answer = Answer(claims=Claim.SILENT, source="none", detail=type(error).__name__)
            gone = not isinstance(error, TimeoutError)
        answered_ns = self._recorder.now_ns()
        if incarnation != max(node.incarnation, 0):
            # Either process may have answered; recording silence for the new one is safe.
            answer = Answer(claims=Claim.SILENT, source=answer.source, detail="restarted while asked")
        self._recorder.record(
            BeliefEvent,
            subject=subject,
            node=node.name,
            incarnation=max(node.incarnation, 0),
            claims=answer.claims,
            asked_ns=asked_ns,
            answered_ns=answered_ns,
            source=answer.source,
            epoch=answer.epoch,
            epoch_exact=answer.epoch_exact,
            leader=answer.leader,
            detail=answer.detail,
        )
        self.answers.note(subject, node.name, answer, asked_ns)
        if subject != self._system.profile.subject:
            return
        latest = self._latest[node.name]
        latest.claims, latest.epoch = answer.claims, answer.epoch
        latest.asked_ns, latest.answered_ns = asked_ns, answered_ns
        self._note_claim(node.name, answer, answered_ns, gone=gone)

    def _note_claim(self, node: str, answer: Answer, answered_ns: int, *, gone: bool) -> None:
        """Note which nodes may still believe that they lead: a silent one may, one that is gone may not."""
        if answer.claims is Claim.YES:
            epoch = -1 if answer.epoch is None else answer.epoch
            before = self._claims.get(node)
            if before is None or before[0] != epoch:
                self._claims[node] = (epoch, answered_ns)
        elif answer.claims is Claim.NO or gone:
            self._claims.pop(node, None)
        newest = max(self._claims, key=self._claims.__getitem__, default=None)
        if len(self._claims) > 1 or self.superseded:
            self.superseded = frozenset(self._claims) - {newest}

    async def _follow_log(self, node: Node, reader: LogReader) -> None:
        follower = LogFollower(node.log)
        before_ns = 0
        try:
            async for _ in _beats(POLL_S):
                now_ns = self._recorder.now_ns()
                self._read_log(node, follower, reader, before_ns)
                before_ns = now_ns
        finally:
            self._read_log(node, follower, reader, before_ns)

    def _read_log(self, node: Node, follower: LogFollower, reader: LogReader, before_ns: int) -> None:
        """Record what the log has now and did not have at `before_ns`."""
        record = functools.partial(
            self._recorder.record, node=node.name, incarnation=max(node.incarnation, 0), source="log"
        )
        for line in follower.lines():
            for event in reader.read(line):
                match event:
                    case Attempt():
                        self._record_attempt(node, event)
                    case Failed(why):
                        self._note_broken(node, why)
                    case CaughtUp(way):
                        record(CatchUpEvent, change=way)
                    case BecameLeader(epoch):
                        record(EpochEvent, epoch=epoch)
                    case LoggedChange():
                        self._record_change(node, event, before_ns)
                    case TookOver() | Reached():
                        """Only triggers wait for them; answers tell the reigns of what was taken over."""

    def _record_change(self, node: Node, change: LoggedChange, before_ns: int) -> None:
        numbered = (n for n in self._nodes.values() if n.place.number == change.number)
        about = node if change.number is None else next(numbered, None)
        if about is None:
            return
        self._recorder.record(
            LogEvent,
            node=about.name,
            incarnation=max(about.incarnation, 0),
            change=change.change,
            asked_ns=before_ns,
            source="log" if about is node else log_of(node.name),
            subject=change.subject,
            key=change.key,
            epoch=change.epoch,
            position=change.position,
            detail=change.detail,
            topic=change.topic,
        )

    def _record_attempt(self, node: Node, attempt: Attempt) -> None:
        self._recorder.record(
            AttemptEvent,
            node=attempt.node or node.name,
            f=attempt.f,
            error=attempt.error,
            source=log_of(node.name),
            epoch=attempt.epoch,
            key=attempt.key,
            detail=attempt.detail,
        )

    def _note_broken(self, node: Node, why: str) -> None:
        """Record each reason once per start of the server: its log repeats it."""
        which = (node.name, node.incarnation, why)
        if which not in self._broken:
            self._broken.add(which)
            self._recorder.record(NoteEvent, topic=BROKEN_SERVER, text=f"{node.name}: {why}")


async def _beats(every_s: float) -> AsyncIterator[None]:
    """Yield at the same moments for all observers, so that the loop wakes up once for all of them."""
    loop = asyncio.get_running_loop()
    due_s = math.floor(loop.time() / every_s) * every_s
    while True:
        yield
        late = math.floor((loop.time() - due_s) / every_s)
        due_s += max(1, late) * every_s
        await asyncio.sleep(max(0.0, due_s - loop.time()))
