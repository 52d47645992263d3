"""When a change of a setting had certainly taken effect: what all rules about settings rest on.

A setting's changes have values of their own, so a read names the change that it shows. Of a change W is known
  - that it has no effect before its invocation;
  - `first_by`: that it has had its effect by its acknowledgement, and by the first answer that shows it;
  - `last_by`: that it has no further effect afterwards, if it can have but one. A broker that forwards a change may
    hand it over again when its connection is lost. One that is acknowledged within `HANDED_OVER_ONCE_NS` was handed
    over once (a lost connection is not dialled again for 50 ms: NodeToControllerChannelManager), and so was one sent to
    a controller that is no broker, which does not forward. Of every other change `last_by` is unknown: it may come
    back.

A removal is a change without a value. An answer that shows nothing may show any removal, or what was before the run; so
it proves nothing about what its view held, and only counts against the latest of these.

V is certainly older than X when `last_by(V)` is before X was invoked. A setting that is absent, or holds what nobody
wrote in this run, is as it was before the run: older than every change.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import Newest, grouped
from fencepost.checkers.derived.positions import completed_ns
from fencepost.checkers.derived.reigns import epoch_subject, reigns_of
from fencepost.checkers.derived.servers import Risk
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Facts
from fencepost.systems.kafka.facts.forwarding import HANDED_OVER_ONCE_NS

_COPIES: Final = {"topic": "cache", "partitions": "cache", "acl": "acl", "broker": "broker"}
#: Of what was there before the run: it was there by then.
BEFORE_THE_RUN_NS: Final = -1


class MetadataChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one setting; the instants are None where nothing is certain. `seen_by` showed it first."""

    operation: Operation
    first_by_ns: int | None
    last_by_ns: int | None
    seen_by: Operation | None

    @property
    def invoked_ns(self) -> int:
        return self.operation.invoked_ns

    @property
    def acknowledged(self) -> bool:
        return self.operation.type is Outcome.OK


class MetadataChanges:
    """All changes of settings, by key and value, and all answered reads of them."""

    def __init__(self, history: History, facts: Facts) -> None:
        alters = [o for o in history.operations if o.f == "alter"]
        #: Answered reads in the order of invocation.
        self.reads: Final = [o for o in history.operations if o.f == "describe" and o.type is Outcome.OK]
        seen: dict[tuple[str | None, Value], Operation] = {}
        for read in self.reads:
            before = seen.get((read.key, read.result))
            if before is None or completed_ns(read) < completed_ns(before):
                seen[read.key, read.result] = read
        direct = direct_nodes(facts)
        set_to = [o for o in alters if o.value is not None]
        self._by_value: Final = {(o.key, o.value): _change(o, seen.get((o.key, o.value)), direct) for o in set_to}
        self._by_key: Final = grouped(self._by_value.values(), lambda change: change.operation.key)
        self._removals: Final[dict[str | None, list[MetadataChange]]] = {}
        for alter in alters:
            if alter.value is None and alter.type is not Outcome.FAIL:
                removal = _change(alter, None, direct)
                self._removals.setdefault(alter.key, []).append(removal)
                self._by_key.setdefault(alter.key, []).append(removal)
        for own in self._by_key.values():
            own.sort(key=lambda c: c.operation.invoke_index)

    def shown(self, read: Operation) -> MetadataChange | None:
        """Return the change that an answer shows; None if its state is from before the run."""
        return self._by_value.get((read.key, read.result))

    def last_by(self, read: Operation) -> int | None:
        """By when the shown state was certainly made for the last time."""
        change = self.shown(read)
        if change is not None:
            return change.last_by_ns
        latest = BEFORE_THE_RUN_NS
        for removal in self._may_show(read):
            if removal.last_by_ns is None:
                return None
            latest = max(latest, removal.last_by_ns)
        return latest

    def may_show_a_removal(self, read: Operation) -> bool:
        """Whether an answer shows nothing after a removal was asked for: then nobody knows what it shows."""
        return bool(self._may_show(read))

    def _may_show(self, read: Operation) -> list[MetadataChange]:
        if read.result is not None:
            return []
        return [change for change in self._removals.get(read.key, []) if change.invoked_ns < completed_ns(read)]

    def of(self, key: str | None) -> list[MetadataChange]:
        """All changes of one setting, in the order of invocation."""
        return self._by_key.get(key, [])

    @property
    def keys(self) -> Iterable[str | None]:
        return self._by_key


def newest_in_effect(changes: Iterable[MetadataChange]) -> Newest[MetadataChange]:
    """The newest change of one setting, by invocation, among those that had taken effect by some time.

    A view that holds everything from before that time must show it, if it shows nothing later.
    """
    return Newest((c.invoked_ns, c.first_by_ns, c) for c in changes if c.first_by_ns is not None)


def view_of(key: str | None) -> str:
    """Name the copy that a node answers from about this key.

    In KRaft all copies follow one log. In ZooKeeper mode topics and partitions come from the controller, ACLs from a
    session of the authorizer's own, brokers' defaults by notifications; and what one of them holds proves
    nothing of the others.
    """
    kind, slash, _ = (key or "").partition("/")
    return _COPIES.get(kind, "") if slash else ""


def direct_nodes(facts: Facts) -> frozenset[str]:
    """Nodes that answer for themselves and forward nothing: voters, unless all nodes vote and so may be brokers too."""
    return frozenset(facts.voters) if set(facts.voters) < set(facts.nodes) else frozenset()


def _change(alter: Operation, seen: Operation | None, direct: frozenset[str]) -> MetadataChange:
    proofs = [completed_ns(o) for o in (alter if alter.type is Outcome.OK else None, seen) if o is not None]
    first_by_ns = min(proofs, default=None)
    quick = alter.type is Outcome.OK and completed_ns(alter) - alter.invoked_ns < HANDED_OVER_ONCE_NS
    once = alter.node in direct or quick
    return MetadataChange(
        operation=alter, first_by_ns=first_by_ns, last_by_ns=first_by_ns if once else None, seen_by=seen
    )


#: What a rule lacks where nothing was at risk.
UNTOUCHED: Final = "the controller did not change, and no fault touched one, after a change was sent"


def controller_risk(history: History, facts: Facts) -> Risk:
    """What a new controller, or a fault that stopped a controller or a voter or cut one off, could have taken away."""
    subject = epoch_subject(history)
    reigns = None if subject is None else reigns_of(history, subject)
    begins = [] if reigns is None else [begin.at_ns for begin in reigns.begins]
    controllers = {*facts.voters, *(() if reigns is None else (reign.node for reign in reigns.reigns))}
    return Risk(history, facts, controllers, max(begins) if len(begins) > 1 else -1)
