"""How far the store had come: the least position that an answer may stand at, by what was answered before."""

from bisect import bisect_left
from collections.abc import Sequence

from fencepost.checkers.storage.kv.acts import Act, Kind


class Floors:
    """How far the store had certainly come when something was invoked, by all that was answered before."""

    def __init__(self, acts: Sequence[Act]) -> None:
        ended = sorted(
            (act for act in acts if act.done is not None and act.kind is not Kind.SYNC), key=lambda a: a.ended
        )
        self._ends = [act.ended for act in ended]
        self._best: list[tuple[int, Act | None]] = [(-1, None)]
        for act in ended:
            best = self._best[-1]
            self._best.append((act.reached, act) if act.reached > best[0] else best)
        written = [act for act in ended if act.writes]
        self._written_ends = [act.ended for act in written]
        self._written: list[tuple[int, Act | None]] = [(-1, None)]
        for act in written:
            best = self._written[-1]
            self._written.append((act.known, act) if act.known > best[0] else best)

    def before(self, invoked: int) -> tuple[int, Act | None]:
        """The highest position that a reply had told by then, and whose."""
        return self._best[bisect_left(self._ends, invoked)]

    def written(self, invoked: int) -> tuple[int, Act | None]:
        """The highest position of a write that was acknowledged by then, and which write."""
        return self._written[bisect_left(self._written_ends, invoked)]


class Session:
    """What one session had seen at each moment; callers ask in the order of invocation."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self._ended = sorted((act for act in acts if act.done is not None), key=lambda a: a.ended)
        self._next = 0
        self._best: tuple[int, Act | None] = (-1, None)
        self._seen: dict[int, int] = {}
        self._syncs: dict[int, tuple[int, Act | None]] = {}
        #: What the newest answered `sync` found acknowledged, and that `sync`.
        self.sync: tuple[tuple[int, Act | None], Act | None] = ((-1, None), None)

    def before(self, invoked: int) -> tuple[int, Act | None]:
        """The highest position of what the session had been answered, and by which reply."""
        while self._next < len(self._ended) and self._ended[self._next].ended < invoked:
            act = self._ended[self._next]
            self._next += 1
            if act.kind is Kind.SYNC:
                if self._syncs[act.invoked][0] > self.sync[0][0]:
                    self.sync = (self._syncs[act.invoked], act)
                continue
            at = max(act.reached, self._seen.get(act.invoked, -1))
            if at > self._best[0]:
                self._best = (at, act)
        return self._best

    def seen(self, act: Act, at: int) -> None:
        """Record the position of a read, whose reply may not tell it."""
        self._seen[act.invoked] = at

    def synced(self, act: Act, floor: tuple[int, Act | None]) -> None:
        """Record that a `sync` was invoked when `floor` was acknowledged."""
        self._syncs[act.invoked] = floor
