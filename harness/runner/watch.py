"""Decides when a healed cluster has been watched for long enough.

A leader that was deposed may act until it denies that it leads. So nodes are watched after the last healing for as
long as the system needs (`LeadershipBound.watch_ns`), but only while something is left to watch. The watch ends once,
for two seconds under load, no fault was in force, every node that is asked who leads has answered since the last
healing, exactly one node claimed to lead, and nobody named another node or a later epoch. A node that does not answer
may be a deposed leader. Seconds at the end of the main phase count as well, since there is load.
"""

from collections.abc import Callable
from typing import Final

from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim

#: How long everybody must agree under load.
CALM_NS: Final = 2_000_000_000
LOOK_S: Final = 0.05


class LastAnswers:
    """The last answer of each node about each subject, and when it was asked."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, tuple[Answer, int]]] = {}

    def expect(self, subject: str, node: str) -> None:
        """Say that this node will be asked; until it answers, it counts as silent."""
        self.note(subject, node, Answer(claims=Claim.SILENT, source="none"), -1)

    @property
    def are_expected(self) -> bool:
        """Whether any node is asked who leads."""
        return bool(self._last)

    def note(self, subject: str, node: str, answer: Answer, asked_ns: int) -> None:
        """Keep an answer; SILENT when there was none."""
        self._last.setdefault(subject, {})[node] = (answer, asked_ns)

    def leader(self, subject: str, since_ns: int) -> str | None:
        """Return the node that claims to lead this subject in the highest epoch, by answers asked since then."""
        claims = [
            (answer.epoch if answer.epoch is not None else -1, asked_ns, node)
            for node, (answer, asked_ns) in self._last.get(subject, {}).items()
            if answer.claims is Claim.YES and asked_ns >= since_ns
        ]
        return max(claims)[2] if claims else None

    def disagreement(self, since_ns: int) -> str | None:
        """Return in words who may still act or does not follow, by answers asked since then; None when all agree."""
        for subject, answers in self._last.items():
            wrong = _disagreement(answers, since_ns)
            if wrong is not None:
                return f"{subject}: {wrong}"
        return None


def _disagreement(answers: dict[str, tuple[Answer, int]], since_ns: int) -> str | None:
    silent = [name for name, (last, asked_ns) in answers.items() if last.claims is Claim.SILENT or asked_ns < since_ns]
    if silent:
        return f"{', '.join(silent)} did not answer"
    leaders = [name for name, (last, _) in answers.items() if last.claims is Claim.YES]
    if len(leaders) != 1:
        return f"{' and '.join(leaders) or 'nobody'} claimed to lead"
    (leader,) = leaders
    epoch = answers[leader][0].epoch
    for name, (last, _) in answers.items():
        if last.leader not in (None, leader):
            return f"{name} took {last.leader} for the leader, which {leader} claimed to be"
        if epoch is not None and last.epoch is not None and last.epoch > epoch:
            return f"{name} named epoch {last.epoch}, and {leader} claimed to lead in epoch {epoch}"
    return None


class LoadWatch:
    """How long under load nothing has been left to watch. `look` is called every `LOOK_S` while the run lasts.

    Args:
        answers: what nodes answered.
        in_force: whether a fault is in force.
        healed_ns: when the last fault was healed; None before any was.
    """

    def __init__(
        self, answers: LastAnswers, *, in_force: Callable[[], bool], healed_ns: Callable[[], int | None]
    ) -> None:
        self._answers, self._in_force, self._healed_ns = answers, in_force, healed_ns
        self._since_ns = 0
        self._looked_ns: int | None = None
        self._calm_ns = 0
        #: What was left to watch at the last look; None when nothing was.
        self.left: str | None = "no node was asked yet"

    @property
    def over(self) -> bool:
        """Whether nothing has been left to watch for long enough."""
        return self._calm_ns >= CALM_NS

    @property
    def in_words(self) -> str:
        """Why the watch may end, or what was left when it ended."""
        if self.left is not None:
            return f"and at its end {self.left}"
        only = "" if self.over else "only "
        agreed = "with all nodes agreed on who leads" if self._answers.are_expected else "without a fault"
        return f"{only}the last {min(self._calm_ns, CALM_NS) / 1e9:.1f} s of load {agreed}"

    def look(self, now_ns: int, *, loaded: bool) -> None:
        """Count the time since the last look if it was under load and nothing is left to watch; else begin again."""
        since_ns = self._healed_ns() or 0
        self.left = "a fault was in force" if self._in_force() else self._answers.disagreement(since_ns)
        if self.left is not None or since_ns != self._since_ns:
            self._calm_ns = 0
        elif loaded and self._looked_ns is not None:
            self._calm_ns += now_ns - self._looked_ns
        self._since_ns, self._looked_ns = since_ns, now_ns
