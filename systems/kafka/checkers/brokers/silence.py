"""When a broker certainly reached nobody who could keep its session alive, and who could have fenced it then."""

import msgspec

from fencepost.checkers.derived.evidence import Intervals, clipped, merged
from fencepost.checkers.derived.reigns import Reign, Reigns
from fencepost.checkers.derived.servers import cuts, possibly_stopped, severed, stopped
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, SessionBound


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """From `from_ns` to `to_ns` nothing that `broker` sent can have kept its session alive, in the time of `reign`."""

    broker: str
    reign: Reign
    from_ns: int
    to_ns: int


class Silences:
    """The silent times of all brokers of one history."""

    def __init__(self, history: History, facts: Facts, bound: SessionBound, reigns: Reigns) -> None:
        self._history, self._bound = history, bound
        self._reigns = [reign for reign in reigns.reigns if certain_term(reign)[0] < certain_term(reign)[1]]
        self._cut: dict[str, Intervals] = {}
        for cut in cuts(history, tuple(dict.fromkeys((*bound.nodes, *facts.nodes))), facts.voters):
            self._cut.setdefault(cut.node, []).append((cut.from_ns, cut.to_ns))

    def all(self) -> list[Silence]:
        """Every silent time of a broker that was up or down, under a leader that ran and was with a majority.

        Where voters hold the sessions, a broker that was away before the leader was elected may have lost its session
        before. The new leader then never counts it among the living, and fences nobody.
        """
        silences = []
        for broker in self._bound.nodes:
            for reign in self._reigns:
                if reign.node == broker:
                    continue
                first_ns, last_ns = certain_term(reign)
                away = merged([*stopped(self._history, broker), *self._out_of_reach(broker, reign)])
                for start_ns, end_ns in clipped(away, first_ns, last_ns):
                    known = self._bound.held_by_leader or start_ns > first_ns
                    if known and not self._hindered(reign, start_ns, end_ns):
                        silences.append(Silence(broker=broker, reign=reign, from_ns=start_ns, to_ns=end_ns))
        return silences

    def lonely(self, broker: str) -> Intervals:
        """When the broker reached no controller that acted, whether it ran or not."""
        from_leaders: Intervals = []
        for reign in self._reigns:
            if reign.node != broker:
                from_leaders += clipped(severed(self._history, broker, reign.node), *certain_term(reign))
        return merged([*self._cut.get(broker, []), *from_leaders])

    def _out_of_reach(self, broker: str, reign: Reign) -> Intervals:
        if self._bound.held_by_leader:
            return severed(self._history, broker, reign.node)
        return self._cut.get(broker, [])

    def _hindered(self, reign: Reign, from_ns: int, to_ns: int) -> bool:
        """Whether the leader may not have run all the time, or was cut off from a majority."""
        times = [*possibly_stopped(self._history, reign.node), *self._cut.get(reign.node, [])]
        return any(start < to_ns and from_ns < end for start, end in times)


def certain_term(reign: Reign) -> tuple[int, int]:
    """When it certainly led and no later epoch had begun."""
    superseded = reign.superseded
    return reign.first_ns, reign.until_ns if superseded is None else min(reign.until_ns, superseded.at_ns)
