"""What the members of each group did: joins, commits and reads of offsets, with the generation of each."""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.derived.evidence import Newest, grouped
from fencepost.checkers.derived.positions import by_name, completed_ns
from fencepost.harness.history import History, Operation, Outcome

_COMMITS: Final = frozenset({"offset-commit", "late-commit"})


class ConsumerGroup:
    """One group: `joins` and `reads` are answered ones, `commits` all, each in the order of invocation."""

    def __init__(self, key: str, operations: Sequence[Operation]) -> None:
        self.key: Final = key
        answered = [o for o in operations if o.type is Outcome.OK]
        self.joins: Final = [o for o in answered if o.f == "join"]
        self.reads: Final = [o for o in answered if o.f == "offset-fetch"]
        self.commits: Final = [o for o in operations if o.f in _COMMITS]
        self.commit_of: Final = {o.value: o for o in self.commits}
        self.acknowledged: Final = [o for o in self.commits if o.type is Outcome.OK]
        #: The commit that was sent last among those acknowledged before a moment.
        self.newest: Final = Newest((commit.invoked_ns, completed_ns(commit), commit) for commit in self.acknowledged)
        self._own: Final = grouped(self.joins, lambda join: join.process)

    def generation(self, commit: Operation) -> int | None:
        """The generation in which a commit was sent, by its answer, or by what its process had joined."""
        if commit.type is Outcome.OK:
            return int(commit.result[1])
        own: list[int] = []
        for join in self._own.get(commit.process, []):
            if completed_ns(join) <= commit.invoked_ns and join.result[0] not in own[-1:]:
                own.append(join.result[0])
        back = 2 if commit.f == "late-commit" else 1
        return own[-back] if len(own) >= back else None


def groups_of(history: History) -> list[ConsumerGroup]:
    """List the groups by key."""
    own = by_name(history, {*_COMMITS, "join", "offset-fetch"})
    return [ConsumerGroup(key, operations) for key, operations in sorted(own.items())]
