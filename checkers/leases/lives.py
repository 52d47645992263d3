"""When a lease was certainly alive, and when it was certainly over, by every clock that may have counted.

An answered keep-alive reached the node that counts the lease between its invocation and its answer. So the lease lives
at least for its time to live after the invocation, and at most for its time to live after the answer. An unanswered
keep-alive may count at any later time.

A keep-alive is *in doubt* if a superseded leader may have answered it: a higher epoch had begun than the one in its
stamp (or, without a stamp, than the last one that its node named), or began within the delay with which logs are read.

Source: Gray & Cheriton (1989): the holder and the server count one lease by different clocks, so the holder must count
from its request and the server from its answer. Here the fastest clock gives the earliest lawful end, and the slowest
clock the latest.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from fencepost.checkers.derived.clocks import FastestClock, OwnTime
from fencepost.checkers.derived.evidence import Intervals, merged
from fencepost.checkers.derived.reigns import (
    EpochBegin,
    NamedEpochs,
    Reigns,
    log_delay_ns,
    logged_elections,
    statements,
)
from fencepost.checkers.derived.servers import changes_ns, possibly_away, stopped
from fencepost.checkers.leases.view import GrantedLease, LookAtKeys, Renewal
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, LeaseBound

#: A node that returns is known again to all others by then.
_KNOWN_AGAIN_NS: Final = 10_000_000_000


class Lives:
    """When the leases of one history were certainly alive, and when they were certainly over."""

    def __init__(self, history: History, facts: Facts, reigns: Reigns, bound: LeaseBound) -> None:
        self.bound: Final = bound
        self.fastest: Final = FastestClock(history, bound.clocks)
        self._reigns = reigns
        self._slowest = [OwnTime(history, node, stopped(history, node), bound.clocks) for node in facts.nodes]
        self._named: Final = NamedEpochs(statements(history))
        self._disturbed: Final = _disturbed(history, self._named)
        self._log_delay_ns: Final = log_delay_ns(history)
        self._away: Final = {
            node: [(began, ended + _KNOWN_AGAIN_NS) for began, ended in possibly_away(history, node)]
            for node in (facts.nodes if bound.ends_with_node else ())
        }

    # Alive

    def until_ns(self, renewal: Renewal) -> int:
        """Return until when the lease certainly lives by this renewal alone, in ns since the run began."""
        return self.fastest.reached_ns(renewal.asked_ns, renewal.ttl_ns)

    def superseded_by(self, renewal: Renewal) -> EpochBegin | None:
        """Return the higher epoch that had begun, if a superseded leader may have answered `renewal`; else None."""
        op = renewal.op
        last = self._named.last(op.node, renewal.answered_ns)
        epoch = op.epoch if op.epoch is not None or last is None else last.named
        begin = None if epoch is None else self._reigns.superseded(epoch)
        return begin if begin is not None and renewal.answered_ns >= begin.at_ns - self._log_delay_ns else None

    def certain(self, lease: GrantedLease, renewals: Sequence[Renewal]) -> Intervals:
        """Return when it was certainly alive by these of its renewals, as disjoint intervals in order."""
        ends_ns = lease.revoke_asked_ns if lease.revoke_asked_ns is not None else NEVER_NS
        away = self._away.get(lease.grant.op.node, ())
        spans = [(r.answered_ns, min(self.until_ns(r), ends_ns)) for r in renewals]
        spans = [(start, min([end, *(began for began, over in away if over > start)])) for start, end in spans]
        return merged([(start, end) for start, end in spans if start < end])

    # Over

    def over_ns(self, lease: GrantedLease, at_ns: int) -> tuple[int, int] | None:
        """Return (start, length) in ns: the lease is over once every clock has counted `length` since `start`.

        None if that is not known at `at_ns`: an operation of unknown outcome may have renewed it, or the cluster was
        disturbed, after which a server may count the whole time again.
        """
        last_ns, length_ns = lease.last_answer_ns, self.bound.ttls * lease.ttl_ns + self.bound.extra_ns
        if last_ns is None or at_ns - last_ns <= length_ns:
            return None
        quiet_ns = self._quiet_since(at_ns)
        return None if quiet_ns is None else (max(quiet_ns, last_ns), length_ns)

    def certainly_over(self, lease: GrantedLease, look: LookAtKeys) -> bool:
        """Whether every node's clock had counted the whole of it when the look was invoked."""
        over = self.over_ns(lease, look.invoked_ns)
        if over is None:
            return False
        since_ns, length_ns = over
        # The least that each node can have counted, so that no slow clock is taken for a lease that lives too long.
        return look.invoked_ns - since_ns > length_ns and all(
            own.running_ns(since_ns, look.invoked_ns) > length_ns for own in self._slowest
        )

    def first_over(self, leases: Sequence[GrantedLease]) -> list[GrantedLease]:
        """Choose the leases that suffice to tell whether any of `leases` is certainly over at some moment.

        Of two leases the one with the shorter time to live and the earlier last answer is over first, so the other is
        left out. A clock that was put back can reverse that: then all leases stay.
        """
        if any(own.was_put_back for own in self._slowest):
            return list(leases)
        ending = sorted(
            (lease.ttl_ns, lease.last_answer_ns, n)
            for n, lease in enumerate(leases)
            if lease.last_answer_ns is not None
        )
        first: list[GrantedLease] = []
        earliest_ns = NEVER_NS
        for _, last_ns, number in ending:
            if last_ns < earliest_ns:
                earliest_ns = last_ns
                first.append(leases[number])
        return first

    def _quiet_since(self, at_ns: int) -> int | None:
        """Return since when nothing had disturbed the cluster at `at_ns`; None if something did at that time."""
        place = bisect_right(self._disturbed, (at_ns, NEVER_NS))
        ended_ns = self._disturbed[place - 1][1] if place else 0
        return None if ended_ns >= at_ns else ended_ns


def _disturbed(history: History, named: NamedEpochs) -> Intervals:
    """Return the times of faults, until they were proven healed, of elections, and of starts and ends of servers."""
    lines = (line.time_ns for line in logged_elections(history).lines)
    moments = [(at_ns, at_ns) for at_ns in (*lines, *changes_ns(history), *named.first_ns.values())]
    return merged([*map(history.possible, history.faults), *moments])
