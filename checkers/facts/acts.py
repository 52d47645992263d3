"""What superseded leaders did with requests: refused them, left them unanswered, served them, or acted.

`checkers.facts.requests` defines which requests count. An ok answer alone proves little, since a follower passes
requests on to the leader. A superseded leader *acted* in four cases:
  - "stale answer": it answered a read that had to be current, and the answer lacks a write, stamped with a higher
    epoch, that was acknowledged before the read was invoked;
  - "lost acknowledgement": it acknowledged an add that no strong read ever showed, that the last strong read after
    healing lacks, and that nothing removed;
  - "stamped effect": it acknowledged a write that took effect under its own epoch after an effect of a higher epoch.
    Either the write stands behind that effect in the store's order, and a reader in the higher epoch saw it. Or it was
    invoked after a write of the higher epoch had been acknowledged, and still stands at or before that write's
    position. The second case needs no claim: only the old leader orders writes in front of its successor's;
  - "acknowledged while superseded": it acknowledged a change itself, and the maker rules that out.
A change that breaks several of these rules counts for the first one only.

A rule had a *chance* with every request that reached the superseded leader and that would have broken the rule if it
had been answered wrongly.

Source: Ongaro (2014), section 6.4, for reads; Junqueira, Reed, Serafini (2011) for the order of epochs;
docs/explanation/design.md for the definitions.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from fencepost.checkers.facts.acknowledged import (
    UNKNOWN,
    Acknowledged,
    acknowledged_writes,
    first_of_highest,
    last_of_highest,
)
from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.final_reads import REMOVES, FinalReads, weak_reads
from fencepost.checkers.facts.numbering import views_of
from fencepost.checkers.facts.operation_columns import Longs, longs
from fencepost.checkers.facts.positions import (
    CURRENT,
    EFFECT_FREE,
    READS,
    WRITES,
    ok_reads,
    write_position,
    written,
)
from fencepost.checkers.facts.reigns import Reign, Reigns
from fencepost.checkers.facts.requests import REFUSALS, TIME_OUTS, Request, code_of, requests
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Rule

#: Changes whose effect nothing overwrites.
_UNIQUE: Final = frozenset({"add"})
#: Changes that a store orders before it acknowledges them. Keeping a lease alive is none: leaders do that alone.
_ORDERED: Final = WRITES | REMOVES | {"put", "put-all", "critical", "campaign", "act", "resign"}

LOST: Final = "lost-acknowledgement"
STAMPED: Final = "stamped-effect"
ACKNOWLEDGED: Final = "acknowledged-while-superseded"


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of `reign` answered `read` without `write`, which had been acknowledged in a higher epoch."""

    read: Operation
    write: Operation
    reign: Reign


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of `reign` acknowledged `add`; the final strong read `read` lacks it."""

    add: Operation
    read: Operation
    reign: Reign


class Stamped(msgspec.Struct, frozen=True, kw_only=True):
    """`write` took effect after `earlier`, which is of a higher epoch.

    `seen_by` is the read in the higher epoch that showed it, where the store's order proves it. `reign` is that of the
    leader that acknowledged it, where time proves it.
    """

    write: Operation
    earlier: Operation
    seen_by: Operation | None = None
    reign: Reign | None = None


class Acts(msgspec.Struct, kw_only=True):
    """The requests to superseded leaders by outcome, the violations among them, and the chances of each rule.

    The same operation stands in several lists; a list has them in the order of reigns and invocations.
    """

    requests: list[Operation] = []
    write_requests: list[Operation] = []
    reached_writes: list[Operation] = []
    served: list[Operation] = []
    fenced: list[Operation] = []
    unknown: list[Operation] = []
    refused_otherwise: list[Operation] = []
    fresh_reads_exposed: list[Operation] = []
    stale: list[Stale] = []
    lost: list[Lost] = []
    stamped: list[Stamped] = []
    acknowledged: list[Request] = []
    chances: dict[str, list[Operation]] = {}
    rules: tuple[Rule, ...] = ()

    @property
    def exposed(self) -> list[Operation]:
        """List each change that gave some rule a chance, once, in the order of the history."""
        by_row = {o.invoke_index: o for own in self.chances.values() for o in own}
        return [by_row[index] for index in sorted(by_row)]


@once
def find_acts(history: History, facts: Facts, reigns: Reigns) -> Acts:
    """Sort and judge every request to a superseded leader.

    Args:
        history: one run.
        facts: the guarantee of its reads, and whether the maker rules out acknowledgements of superseded leaders.
        reigns: the reigns of one subject of this history.

    Returns:
        The requests by outcome, and the violations; `rules` says for each rule how often it could have fired.

    Cost: O(n log n) for n operations.
    """
    return _Judge(history, facts, reigns).acts()


class _Judge:
    """Holds each request against every rule."""

    def __init__(self, history: History, facts: Facts, reigns: Reigns) -> None:
        self._requests: Final = requests(history, facts, reigns)
        self._finals: Final = FinalReads(history, facts)
        self._views: Final = views_of(history)
        acknowledged = acknowledged_writes(history)
        self._newer: Final = NewerWrites(acknowledged, self._views.ranks(acknowledged))
        self._newer_of_any: Final = NewerWrites(acknowledged, acknowledged.position)
        self._current: Final = facts.read_guarantee in CURRENT
        self._weak: Final = weak_reads(facts)
        self._refuses: Final = facts.leadership is not None and facts.leadership.superseded_acknowledges_nothing
        by_position = stamped_effects(history) if reigns.stamps_exact and not self._views.renumbered else []
        self._acts: Final = Acts(stamped=by_position, chances={LOST: [], STAMPED: [], ACKNOWLEDGED: []})

    def acts(self) -> Acts:
        acts = self._acts
        for request in self._requests:
            operation = request.operation
            acts.requests.append(operation)
            acts.served += [operation] * request.served
            if operation.f in READS:
                self._judge_read(request)
            elif operation.f not in EFFECT_FREE:
                acts.write_requests.append(operation)
                acts.reached_writes += [operation] * request.reached
                self._judge_change(request)
            self._sort(request)
        acts.rules = self._rules()
        return acts

    def _judge_read(self, request: Request) -> None:
        read, reign = request.operation, request.reign
        write = self._newer.newest(read.key, reign.epoch, read.invoked_ns) if self._current else None
        if write is None or not request.reached:
            return
        if request.provable or request.served:
            self._acts.fresh_reads_exposed.append(read)
        view, missing = self._views.view(read), self._views.rank(write)
        # Whoever returns what it wrote has it, whatever number the server gives that (see `storage.numbering`).
        lacks = view is not None and missing is not None and view < missing and read.result != written(write)
        if request.served and lacks:
            self._acts.stale.append(Stale(read=read, write=write, reign=reign))

    def _judge_change(self, request: Request) -> None:
        if not request.reached:
            return
        change, acts = request.operation, self._acts
        provable = request.provable or request.served
        # Where servers number one write differently, positions do not tell who came first. That a position contradicts
        # time is no reason to leave it out: it is what this rule looks for.
        newest = None if self._views.renumbered else self._newer_of_any
        earlier = None if newest is None else newest.newest_of_all(request.reign.epoch, change.invoked_ns)
        looked_for = change.f in _UNIQUE and self._finals.tells_of(change)
        acts.chances[LOST] += [change] * (looked_for and provable)
        acts.chances[STAMPED] += [change] * (change.f in WRITES and earlier is not None)
        acts.chances[ACKNOWLEDGED] += [change] * (self._refuses and change.f in _ORDERED and provable)
        if change.type is not Outcome.OK:
            return
        if looked_for and request.served and self._finals.proves_lost(change):
            acts.lost.append(Lost(add=change, read=self._finals.last[change.key], reign=request.reign))
        elif earlier is not None and _stands_before(change, earlier, request.reign):
            acts.stamped.append(Stamped(write=change, earlier=earlier, reign=request.reign))
        elif self._refuses and request.served and change.f in _ORDERED:
            acts.acknowledged.append(request)

    def _sort(self, request: Request) -> None:
        """Sort an operation that did not end ok.

        It was fenced if the deposed leader refused it for its role or epoch, and the final state lacks its effect.
        """
        operation, acts = request.operation, self._acts
        if operation.type is Outcome.OK:
            return
        ended_ns, code = operation.ended_ns, code_of(operation)
        if operation.type is Outcome.INFO or code in TIME_OUTS:
            acts.unknown.append(operation)
        elif ended_ns is None or ended_ns >= request.until_ns or code not in REFUSALS:
            acts.refused_otherwise.append(operation)
        elif operation.f in EFFECT_FREE or self._finals.lacks(operation):
            acts.fenced.append(operation)
        else:
            # Without a final read of it, or with its effect there, nobody can say that it was fenced.
            acts.unknown.append(operation)

    def _rules(self) -> tuple[Rule, ...]:
        changes = [r for r in self._requests if r.operation.f not in EFFECT_FREE]
        reached = [r.operation for r in changes if r.reached]
        none = _none_reached(self._requests, changes, reached)
        lacks = {
            LOST: none or self._lacks_unique(reached),
            STAMPED: none or self._lacks_stamps(reached),
            ACKNOWLEDGED: none or self._lacks_promise(),
        }
        counts = {name: len(own) for name, own in self._acts.chances.items()}
        return tuple(
            Rule(name=name, chances=chances, lacks="" if chances else lacks[name]) for name, chances in counts.items()
        )

    def _lacks_unique(self, reached: Sequence[Operation]) -> str:
        adds = [o for o in reached if o.f in _UNIQUE]
        if not adds:
            return "no change that reached it has an effect that nothing overwrites"
        if not any(self._finals.tells_of(o) for o in adds):
            return self._weak or "no final strong read shows whether its adds are there"
        return _UNPROVABLE

    def _lacks_stamps(self, reached: Iterable[Operation]) -> str:
        if self._views.renumbered:
            return "servers number writes differently, so positions do not tell which came first"
        if not any(o.f in WRITES for o in reached):
            return "no write with a position of its own reached it"
        return "before what reached it was sent, no write stamped with a higher epoch had been acknowledged"

    def _lacks_promise(self) -> str:
        return _UNPROVABLE if self._refuses else "the maker does not rule out that it acknowledges a change"


_UNPROVABLE: Final = "no answer could have been told from one that it only passed on"


def _none_reached(all_of: Sequence[Request], changes: Sequence[Request], reached: Sequence[Operation]) -> str:
    """Say why no rule about changes had a chance; empty if a change reached a superseded leader."""
    if reached:
        return ""
    if changes:
        return f"none of {len(changes)} changes that were sent to a superseded leader reached it"
    return "only reads were sent to a superseded leader" if all_of else "nothing was sent to a superseded leader"


def _stands_before(change: Operation, earlier: Operation, reign: Reign) -> bool:
    """Whether `change`, which was invoked after `earlier` was acknowledged, stands in front of it in the old epoch."""
    position, before = write_position(change), write_position(earlier)
    stamped_old = change.epoch is not None and change.epoch <= reign.epoch
    return change.f in WRITES and stamped_old and position is not None and before is not None and position <= before


class NewerWrites:
    """Acknowledged writes, ready to be asked for the newest one above an epoch and before a time.

    Only writes count that are stamped with an epoch and name their position.
    """

    def __init__(self, acknowledged: Acknowledged, ranks: Longs) -> None:
        self._acknowledged, self._ranks = acknowledged, ranks
        self._known: Final = (acknowledged.epoch != UNKNOWN) & (acknowledged.position != UNKNOWN)
        self._tables: dict[tuple[int, *tuple[str | None, ...]], tuple[Longs, Longs]] = {}

    def newest(self, key: str | None, epoch: int, before_ns: int) -> Operation | None:
        """Return the write of `key` that ranks last among those stamped above `epoch` and completed before a time.

        `before_ns` is in nanoseconds since the run began. None: there is no such write.
        """
        none: Longs = longs(())
        return self._newest((epoch, key), self._acknowledged.of_key.get(key, none), before_ns)

    def newest_of_all(self, epoch: int, before_ns: int) -> Operation | None:
        """Return the same over all keys."""
        return self._newest((epoch,), self._acknowledged.by_completion, before_ns)

    def _newest(self, which: tuple[int, *tuple[str | None, ...]], rows: Longs, before_ns: int) -> Operation | None:
        if which not in self._tables:
            self._tables[which] = self._table(rows, which[0])
        times, best = self._tables[which]
        done = int(np.searchsorted(times, before_ns))
        return self._acknowledged.writes[best[done - 1]] if done else None

    def _table(self, rows: Longs, epoch: int) -> tuple[Longs, Longs]:
        """Return when each write above `epoch` completed, and the row of the best one up to it."""
        above = rows[self._known[rows] & (self._acknowledged.epoch[rows] > epoch)]
        return self._acknowledged.completed_ns[above], above[last_of_highest(self._ranks[above])]


def stamped_effects(history: History) -> list[Stamped]:
    """Find the ok writes of a lower epoch behind a write of a higher one, if a reader in a higher epoch saw them.

    The stamps must be exact: a stamp that is only a lower bound proves nothing about the entry itself.
    """
    acknowledged = acknowledged_writes(history)
    rows = np.flatnonzero((acknowledged.epoch != UNKNOWN) & (acknowledged.position != UNKNOWN))
    rows = rows[np.lexsort((acknowledged.epoch[rows], acknowledged.position[rows]))]
    epochs = acknowledged.epoch[rows]
    highest = first_of_highest(epochs)
    behind = np.flatnonzero(epochs < epochs[highest]).tolist()
    seen: dict[int, Operation] = {}
    for read in ok_reads(history) if behind else ():
        if read.value_position is not None and read.epoch is not None:
            known = seen.get(read.value_position)
            if known is None or (known.epoch or 0) < read.epoch:
                seen[read.value_position] = read
    effects: list[Stamped] = []
    for place in behind:
        write = acknowledged.writes[rows[place]]
        reader = seen.get(write_position(write) or 0)
        if reader is not None and (reader.epoch or 0) > (write.epoch or 0):
            effects.append(Stamped(write=write, earlier=acknowledged.writes[rows[highest[place]]], seen_by=reader))
    return effects
