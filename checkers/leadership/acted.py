"""What superseded leaders did with the requests that were sent to them: refused, timed out, served, or acted.

`requests` says which requests count. Being asked, and even being served, proves little, since followers pass requests
on. A superseded leader *acted* when
  - an answer of its own that had to be current lacks an ok write, stamped with a higher epoch, that completed before
    the read was invoked ("stale answer");
  - it acknowledged an add that no strong read ever showed, that the last final one lacks and that nothing removed
    ("lost acknowledgement");
  - a write that it acknowledged took effect under its epoch after an effect of a higher one ("stamped effect"): in the
    store's order, and a reader in the higher epoch saw it; or in time, since it was invoked when a write stamped with
    the higher epoch had been acknowledged, and stands at or before that write's position, with a stamp not above its
    own epoch. The second needs no claim: only the old leader orders writes in front of those of its successor;
  - it acknowledged a change as its own ("acknowledged while superseded"), where the maker rules that out.
A change is counted by the first of these rules that it breaks.

A rule had its *chance* with every request that reached the superseded leader and that would have broken the rule had it
been answered wrongly.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.once import once
from fencepost.checkers.facts.positions import (
    CURRENT,
    EFFECT_FREE,
    READS,
    WRITES,
    by_key,
    ok_reads,
    ok_writes,
    write_position,
    written,
)
from fencepost.checkers.facts.reigns import Reign, Reigns
from fencepost.checkers.findings.rules import rule
from fencepost.checkers.leadership.requests import REFUSALS, TIME_OUTS, Request, code_of, requests
from fencepost.checkers.storage.final_reads import REMOVES, FinalReads
from fencepost.checkers.storage.numbering import views_of
from fencepost.checkers.storage.sets import weak_reads
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
    read: Operation
    write: Operation
    reign: Reign


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    add: Operation
    read: Operation
    reign: Reign


class Stamped(msgspec.Struct, frozen=True, kw_only=True):
    """`write` took effect after `earlier`, of a higher epoch; `seen_by` shows it where their positions do not.

    `reign` is that of the leader who was asked for it, when the two are told apart in time.
    """

    write: Operation
    earlier: Operation
    seen_by: Operation | None = None
    reign: Reign | None = None


class Acts(msgspec.Struct, kw_only=True):
    """The operations of each kind, the violations among them, and those that gave a rule its chance."""

    asked: list[Operation] = []
    asked_writes: list[Operation] = []
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
        """Each change that gave some rule its chance, once."""
        by_row = {o.invoke_index: o for own in self.chances.values() for o in own}
        return [by_row[index] for index in sorted(by_row)]


@once
def find_acts(history: History, facts: Facts, reigns: Reigns) -> Acts:
    """Judge every request to a superseded leader. Cost: O(n log n)."""
    return _Judge(history, facts, reigns).acts()


class _Judge:
    """Holds each request against every rule."""

    def __init__(self, history: History, facts: Facts, reigns: Reigns) -> None:
        self._requests: Final = list(requests(history, facts, reigns))
        self._finals: Final = FinalReads(history, facts)
        self._views: Final = views_of(history)
        self._newer: Final = NewerWrites(by_key(_positioned(history)), self._views.rank)
        self._newer_of_any: Final = NewerWrites({None: _positioned(history)}, write_position)
        self._current: Final = facts.read_guarantee in CURRENT
        self._weak: Final = weak_reads(facts)
        self._refuses: Final = facts.leadership is not None and facts.leadership.superseded_acknowledges_nothing
        by_position = stamped_effects(history) if reigns.stamps_exact and not self._views.renumbered else []
        self._acts: Final = Acts(stamped=by_position, chances={LOST: [], STAMPED: [], ACKNOWLEDGED: []})

    def acts(self) -> Acts:
        acts = self._acts
        for request in self._requests:
            operation = request.operation
            acts.asked.append(operation)
            acts.served += [operation] * request.served
            if operation.f in READS:
                self._judge_read(request)
            elif operation.f not in EFFECT_FREE:
                acts.asked_writes.append(operation)
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
        earlier = None if newest is None else newest.newest(None, request.reign.epoch, change.invoked_ns)
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
        """Fenced: refused for role or epoch while it was the deposed leader, and without effect in the final state."""
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
        return tuple(rule(name, chances, lacks[name]) for name, chances in counts.items())

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
    """Why no rule about changes had a chance; empty where changes reached a superseded leader."""
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


def _positioned(history: History) -> list[Operation]:
    return [o for o in ok_writes(history) if o.epoch is not None and write_position(o) is not None]


class NewerWrites:
    """Acknowledged writes of a key stamped above an epoch, by completion, with the one that ranks last so far."""

    def __init__(self, grouped: dict[str | None, list[Operation]], rank: Callable[[Operation], int | None]) -> None:
        self._rank: Final = rank
        self._writes: Final = {key: sorted(own, key=lambda o: o.completed_ns or 0) for key, own in grouped.items()}
        self._tables: dict[tuple[str | None, int], tuple[list[int], list[Operation]]] = {}

    def newest(self, key: str | None, epoch: int, before_ns: int) -> Operation | None:
        """The write of `key` that stands last among those stamped above `epoch` and completed by `before_ns`."""
        if (key, epoch) not in self._tables:
            self._tables[key, epoch] = self._table(key, epoch)
        times, best = self._tables[key, epoch]
        i = bisect_left(times, before_ns)
        return best[i - 1] if i else None

    def _table(self, key: str | None, epoch: int) -> tuple[list[int], list[Operation]]:
        times: list[int] = []
        best: list[Operation] = []
        for write in self._writes.get(key, []):
            if write.epoch is None or write.epoch <= epoch or write.completed_ns is None:
                continue
            times.append(write.completed_ns)
            behind = best and (self._rank(best[-1]) or 0) > (self._rank(write) or 0)
            best.append(best[-1] if behind else write)
        return times, best


def stamped_effects(history: History) -> list[Stamped]:
    """Ok writes of a lower epoch that stand after a write of a higher one, and were seen by a reader in a higher one.

    Only for exact stamps: a stamp that is a lower bound proves nothing about the entry itself.
    """
    placed = [(write_position(o), o.epoch, o) for o in ok_writes(history)]
    ordered = sorted(((p, e, o) for p, e, o in placed if p is not None and e is not None), key=lambda t: t[:2])
    seen: dict[int, Operation] = {}
    for read in ok_reads(history):
        if read.value_position is not None and read.epoch is not None:
            known = seen.get(read.value_position)
            if known is None or (known.epoch or 0) < read.epoch:
                seen[read.value_position] = read
    found: list[Stamped] = []
    highest: tuple[int, Operation] | None = None
    for position, epoch, write in ordered:
        if highest is not None and epoch < highest[0]:
            reader = seen.get(position)
            if reader is not None and reader.epoch is not None and reader.epoch > epoch:
                found.append(Stamped(write=write, earlier=highest[1], seen_by=reader))
        elif highest is None or epoch > highest[0]:
            highest = (epoch, write)
    return found
