"""Judge a set of unique elements: what was acknowledged must be there in every strong read after healing.

As Jepsen's `set-full`, but for strong reads only. Lost is an element whose add was acknowledged before a final strong
read was invoked and that this read lacks; an element that some strong read had shown and a later one lacks is lost
too, whatever became of its add, since nothing is ever removed. An add of unknown outcome may or may not be there.

Only elements at risk count as tested: those after whose add the leader changed, or a fault touched a voting node.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import is_ok, weak_reads
from fencepost.checkers.derived.reigns import first_subject, reigns_of
from fencepost.checkers.derived.servers import Risk
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, by, seconds
from fencepost.checkers.violations.impossible import judges_answers, named, same_again, unreadable, wrong
from fencepost.harness.history import History, Operation, Outcome, Value
from fencepost.harness.verdict import Cause, Facts, Verdict

GUARANTEE: Final = "no-lost-acknowledged-writes"
READS: Final = frozenset({"members", "read-all"})
LOST: Final = Rule(
    guarantee=GUARANTEE,
    anomaly="lost-write",
    tested="acknowledged elements that something disturbed, and that a strong read after healing had to show",
    lacks="no leader changed and no fault touched a voting node after an acknowledged element was sent",
)
VANISHED: Final = Rule(
    guarantee=GUARANTEE, anomaly="lost-after-seen", tested="elements that were seen before", lacks=LOST.lacks
)
PHANTOM: Final = Rule(
    guarantee=GUARANTEE, anomaly="phantom-element", tested="elements", lacks="no strong read shows an element"
)


def _read(op: Operation) -> None:
    if op.f == "add":
        same_again(op)
    elif op.f in READS and is_ok(op) and not isinstance(op.result, (list, tuple, type(None))):
        wrong(op, f"the read of a set returned {named(op.result)}; expected its elements")


@judges_answers(unreadable(_read))
def check(history: History, facts: Facts) -> list[Verdict]:
    """Return one verdict on all adds and strong reads of the history; every key is a set of its own.

    Cost: O(n log n) for n elements read and added.
    """
    keys = sorted({o.key or "" for o in history.operations if o.f in READS or o.f == "add"})
    sets = [SetHistory(history, key=key, adds="add") for key in keys]
    weak = weak_reads(facts)
    findings = [] if weak else [finding for one in sets for finding in one.findings()]
    later_epochs = reigns_of(history, first_subject(history, facts)).begins[1:]
    changed_ns = max((begin.at_ns for begin in later_epochs), default=-1)
    risk = Risk(history, facts, frozenset(facts.voters), changed_ns)
    due = [add for one in sets for add in one.exposed()]
    at_risk = rows(add for add in due if risk.runs(add))
    undue = "" if due else "no acknowledged element was due in a strong read after healing"
    chances = {LOST.here(lacks=weak or undue): 0 if weak else len(at_risk), **chances_by_reads(sets, weak, risk)}
    return [
        verdict(
            facts,
            *sorted_out(findings, chances),
            doubt=_doubt(weak, sets, history.healed_ns),
            exposed=at_risk,
            figures=numbers_of(counted_in(sets)),
        )
    ]


def _doubt(weak: str, sets: Sequence["SetHistory"], healed_ns: int | None) -> Doubt | None:
    if weak:
        return Doubt(Cause.UNDECIDED, weak)
    if not sets:
        return Doubt(Cause.NO_EXPOSURE, "no add and no read of a set in this history")
    if all(one.final_reads for one in sets):
        return None
    why = "the run never healed" if healed_ns is None else "none was answered"
    return Doubt(Cause.UNDECIDED, f"no strong read after healing: {why}")


def chances_by_reads(sets: Sequence["SetHistory"], weak: str, risk: Risk | None = None) -> dict[Rule, int]:
    """The rules about what strong reads show, with their chances: none where reads are `weak`."""
    unseen = "" if any(one.seen_before_the_last() for one in sets) else "no strong read came after one with elements"
    return {
        VANISHED.here(lacks=weak or unseen): 0 if weak else sum(one.seen_before_the_last(risk) for one in sets),
        PHANTOM.here(lacks=weak): 0 if weak else sum(one.seen() for one in sets),
    }


def counted_in(sets: Sequence["SetHistory"]) -> dict[str, list[Operation]]:
    """What is counted in all sets together, by the names of the figures."""
    counted: dict[str, list[Operation]] = {}
    for one in sets:
        for name, own in one.counted().items():
            counted.setdefault(name, []).extend(own)
    return counted


class SetHistory:
    """The adds and the answered strong reads of one set.

    `adds` names the operation that adds its value: the set workload's `add`, or the lock workload's whole critical
    section.
    """

    def __init__(self, history: History, *, key: str, adds: str) -> None:
        own = [o for o in history.operations if (o.key or "") == key]
        self.key: Final = key
        self.adds: Final = [o for o in own if o.f == adds]
        self.reads: Final = sorted(
            (o for o in own if o.f in READS and o.type is Outcome.OK), key=lambda o: o.invoke_index
        )
        self._members: Final = {o.invoke_index: frozenset(map(_name, o.result or ())) for o in self.reads}
        healed = history.healed_ns
        self.final_reads: Final = [o for o in self.reads if healed is not None and o.invoked_ns >= healed]

    def exposed(self) -> list[Operation]:
        """The adds of acknowledged elements that the last of the final reads had to show."""
        if not self.final_reads:
            return []
        last = self.final_reads[-1].invoke_index
        return [o for o in self.adds if o.type is Outcome.OK and (o.complete_index or 0) < last]

    def seen(self) -> int:
        """How many elements strong reads show."""
        return len(frozenset[Value]().union(*self._members.values()))

    def seen_before_the_last(self, risk: Risk | None = None) -> int:
        """How many elements had been shown before the last strong read was invoked, and then were at `risk`."""
        last = self.reads[-1].invoke_index if self.reads else -1
        earlier = [o for o in self.reads if (o.complete_index or 0) < last and (risk is None or risk.runs(o))]
        return len(frozenset[Value]().union(*(self._members[o.invoke_index] for o in earlier)))

    def findings(self, *, lost: str = "lost-write") -> list[Finding]:
        """Every element that is lost, vanished or was never added, once each."""
        missing: dict[Value, Finding] = {}
        for read in self.final_reads:
            for add in self._missing(read):
                missing.setdefault(_name(add.value), self._lost(add, read, lost))
        for element, (before, after) in self._vanished().items():
            missing.setdefault(element, self._vanish(element, before, after))
        return [*missing.values(), *self._phantoms()]

    def counted(self) -> dict[str, list[Operation]]:
        """What the report counts, by name; a read stands once for each element that it shows again."""
        last = self._members[self.final_reads[-1].invoke_index] if self.final_reads else frozenset()
        return {
            "adds_ok": [o for o in self.adds if o.type is Outcome.OK],
            "adds_fail": [o for o in self.adds if o.type is Outcome.FAIL],
            "adds_info": [o for o in self.adds if o.type is Outcome.INFO],
            "recovered": [o for o in self.adds if o.type is Outcome.INFO and _name(o.value) in last],
            "strong_reads": self.reads,
            "final_reads": self.final_reads,
            "duplicates": [o for o in self.final_reads for _ in range(self._shown_again(o))],
        }

    def _shown_again(self, read: Operation) -> int:
        return len(read.result or ()) - len(self._members[read.invoke_index])

    def _missing(self, read: Operation) -> Iterable[Operation]:
        """Adds acknowledged before `read` was invoked that it lacks."""
        members = self._members[read.invoke_index]
        for add in self.adds:
            if (
                add.type is Outcome.OK
                and (add.complete_index or 0) < read.invoke_index
                and _name(add.value) not in members
            ):
                yield add

    def _lost(self, add: Operation, read: Operation, anomaly: str) -> Finding:
        """An acknowledged element, and the last strong read that still had it if one did."""
        earlier = [
            o
            for o in self.reads
            if _name(add.value) in self._members[o.invoke_index] and o.invoke_index < read.invoke_index
        ]
        last = earlier[-1] if earlier else None
        seen = "No strong read ever showed it." if last is None else f"It was last seen by the read {by(last)}."
        steps = (
            f"{_adding(add)} was acknowledged at {seconds(add.completed_ns or add.invoked_ns)}.",
            seen,
            f"The strong read {by(read)}, invoked at {seconds(read.invoked_ns)}, lacks {add.value!r} "
            f"among its {len(read.result or ())} elements; nothing removes elements.",
        )
        shown = (add, read) if last is None else (add, last, read)
        return Finding(anomaly=anomaly, operations=shown, steps=steps, about=0)

    def _vanished(self) -> dict[Value, tuple[Operation, Operation]]:
        """Elements that a read showed and one invoked after that answer lacks: the two reads, the first such pair."""
        first_seen: dict[Value, Operation] = {}
        for read in sorted(self.reads, key=lambda o: o.complete_index or 0):
            for element in self._members[read.invoke_index]:
                first_seen.setdefault(element, read)
        # In the order of first answers, each later read must hold a growing beginning of them.
        ranked = sorted(first_seen.items(), key=lambda item: item[1].complete_index or 0)
        answers = [seen.complete_index or 0 for _, seen in ranked]
        vanished: dict[Value, tuple[Operation, Operation]] = {}
        for read in self.reads:
            due = bisect_left(answers, read.invoke_index)
            members = self._members[read.invoke_index]
            if due <= len(members) and all(element in members for element, _ in ranked[:due]):
                continue
            for element, seen in ranked[:due]:
                if element not in members:
                    vanished.setdefault(element, (seen, read))
        return vanished

    def _vanish(self, element: Value, before: Operation, after: Operation) -> Finding:
        adds = [o for o in self.adds if _name(o.value) == element]
        steps = (
            f"The strong read {by(before)}, answered at {seconds(before.completed_ns or 0)}, shows {element!r}.",
            f"The strong read {by(after)}, invoked later at {seconds(after.invoked_ns)}, lacks it; nothing removes "
            "elements.",
        )
        return VANISHED.finding(*adds[:1], before, after, steps=steps, about=0)

    def _phantoms(self) -> list[Finding]:
        """Elements in a strong read that nobody can have added by then."""
        added = {_name(o.value): o for o in self.adds}
        possible = {name: o for name, o in added.items() if o.type is not Outcome.FAIL}
        phantoms: dict[Value, Finding] = {}
        for read in self.reads:
            for element in sorted(self._members[read.invoke_index] - phantoms.keys(), key=repr):
                add = possible.get(element)
                if add is not None and add.invoke_index < (read.complete_index or 0):
                    continue
                phantoms[element] = _phantom(element, read, add or added.get(element))
        return list(phantoms.values())


def _phantom(element: Value, read: Operation, add: Operation | None) -> Finding:
    if add is None:
        why = "Nobody ever added it."
    elif add.type is Outcome.FAIL:
        why = f"{_adding(add)} failed definitely ({add.error or 'no error named'})."
    else:
        why = f"{_adding(add)} was invoked only later, at {seconds(add.invoked_ns)}."
    steps = (f"The strong read {by(read)} shows {element!r}.", why)
    return PHANTOM.finding(*(() if add is None else (add,)), read, steps=steps)


def _adding(add: Operation) -> str:
    return f"{add.f} of {add.value!r} {by(add)}"


def _name(value: Value) -> Value:
    return value if type(value) in (int, str) else _Other(type(value), repr(value))


class _Other(NamedTuple):
    """A value that is equal only to one of its own type."""

    kind: type
    text: str

    def __repr__(self) -> str:
        return self.text
