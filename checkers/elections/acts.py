"""Compare what leaders did with the terms in which they did it: by order on the trail, and by position.

Fencing must prevent that an act of an old term takes effect after the term is over. Two proofs need no clock: the act
stands behind an act of a later term on the trail, which keeps all acts in the store's own order; or it was acknowledged
at a position behind the grant that ended its term. Where grants have no position, time gives the second proof: the act
was sent after a later grant had been acknowledged, and took effect.

A leader that stalled, and resigns as if nothing had happened, is refused where the store looks at the term. A store
that acknowledges such a resignation has ended a term by it, and only the later leader's term was left to end.
"""

from collections import Counter
from typing import Any, Final

from fencepost.checkers.elections.terms import TermEnd, Terms, named, position_of, token_of
from fencepost.checkers.rules import Rule
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.history import Operation, Outcome

RESIGNED: Final = Rule(
    guarantee="resign-ends-own-term",
    anomaly="deposed-by-stale-resign",
    tested="answered resignations that were sent when a later term had been granted",
)


def acts_out_of_term(terms: Terms) -> list[Finding]:
    """Find acts that took effect when their term was over: by their order on the trail, else by their position."""
    findings: list[Finding] = []
    placed: set[tuple[Any, ...]] = set()
    acts = {named(o.value): o for o in terms.acts}
    if terms.finals:
        trail = max(terms.finals, key=lambda read: len(read.result))
        newest: Operation | None = None
        reached = 0
        for deed in trail.result:
            act = acts.get(named(deed))
            if act is None:
                continue
            placed.add(named(deed))
            position = position_of(act)
            # An act without a position stands behind all that the trail shows before it.
            reached = max(reached, position or 0, token_of(act))
            end = terms.end(token_of(act))
            if newest is not None and token_of(newest) > token_of(act):
                findings.append(_old_after_new(newest, act, trail))
            elif not terms.positioned:
                findings += _sent_after_the_end(terms, act)
            elif end is not None and (position or reached) >= end.position:
                findings.append(_after_the_end(act, end, position))
            if newest is None or token_of(act) > token_of(newest):
                newest = act
    for act in terms.acts:
        position, end = position_of(act), terms.end(token_of(act))
        if not terms.positioned and named(act.value) not in placed and act.type is Outcome.OK:
            findings += _sent_after_the_end(terms, act)
        if named(act.value) not in placed and position is not None and end is not None and position >= end.position:
            findings.append(_after_the_end(act, end, position))
    for resignation in terms.resignations:
        # It deletes the leader's key, on condition that it is still its own.
        position, end = resignation.position, terms.end(token_of(resignation))
        if position is not None and end is not None and not end.resigned:
            findings.append(_after_the_end(resignation, end, position))
    return findings


def _old_after_new(newer: Operation, act: Operation, trail: Operation) -> Finding:
    steps = (
        f"{_deed(newer)} is on the trail.",
        f"{_deed(act)}, of the earlier term {token_of(act)}, stands behind it in the store's own order.",
        f"So read by {trail.node} after healing (event {trail.invoke_index}): an act of an old term took effect after "
        f"one of a new term.",
    )
    return Finding(anomaly="old-term-acted", operations=(newer, act, trail), steps=steps, about=1)


def _sent_after_the_end(terms: Terms, act: Operation) -> list[Finding]:
    """Return the violation if this act, which took effect, was sent when a later term had been granted."""
    later = terms.superseded_by(token_of(act))
    if later is None or act.invoked_ns <= (later.completed_ns or 0):
        return []
    steps = (
        f"Term {later.result[0]} was granted to process {later.process} on {later.node} by "
        f"{seconds(later.completed_ns or 0)} (event {later.complete_index}).",
        f"{_deed(act)}, of the earlier term {token_of(act)}, was sent after that, at {seconds(act.invoked_ns)}, and "
        f"took effect.",
        f"So it took effect when term {token_of(act)} was over.",
    )
    return [Finding(anomaly="acted-after-its-term", operations=(later, act), steps=steps)]


def _after_the_end(act: Operation, end: TermEnd, position: int | None) -> Finding:
    over = (
        f"Its leader's resignation stands at {end.position}."
        if end.resigned
        else f"A later term was granted at {end.position}, its token."
    )
    stands = f"at {position}" if position is not None else "behind acts that stand at that place or later"
    steps = (
        f"{_deed(act) if act.f == 'act' else _resignation(act)} took effect and stands {stands}.",
        over,
        f"So it took effect when term {token_of(act)} was over.",
    )
    shown = (act,) if end.operation is None else (end.operation, act)
    return Finding(anomaly="acted-after-its-term", operations=shown, steps=steps)


def impossible_acts(terms: Terms) -> list[Finding]:
    """Find acts on the trail that were refused, that nobody sent, or that stand there twice; and trails that differ."""
    findings: list[Finding] = []
    acts = {named(o.value): o for o in terms.acts}
    reported: set[tuple[str, tuple[Any, ...]]] = set()
    for read in terms.finals:
        deeds = [named(deed) for deed in read.result]
        for deed, times in Counter(deeds).items():
            act = acts.get(deed)
            anomaly = _impossible(act, times, read)
            if anomaly is None or (anomaly[0], deed) in reported:
                continue
            reported.add((anomaly[0], deed))
            shown = (read,) if act is None else (act, read)
            steps = (f"{read.node} shows {list(deed)!r} on the trail (event {read.invoke_index}).", anomaly[1])
            findings.append(Finding(anomaly=anomaly[0], operations=shown, steps=steps, about=0))
    return findings + _trails_that_differ(terms) + _against_positions(terms)


def _impossible(act: Operation | None, times: int, read: Operation) -> tuple[str, str] | None:
    if act is None:
        return "act-from-nowhere", "Nobody ever did that."
    if act.invoke_index > (read.complete_index or 0):
        return "act-from-nowhere", f"{_deed(act)} was sent only later, at {seconds(act.invoked_ns)}."
    if act.type is Outcome.FAIL:
        return "refused-act-took-effect", f"{_deed(act)} was definitely refused ({act.error or 'no error named'})."
    if times > 1:
        return "act-twice", f"{_deed(act)} stands there {times} times."
    return None


def _trails_that_differ(terms: Terms) -> list[Finding]:
    """Find strong reads that are no prefix of the longest one: nothing is ever removed from the trail."""
    if not terms.finals:
        return []
    longest = max(terms.finals, key=lambda read: len(read.result))
    whole = [named(deed) for deed in longest.result]
    findings = []
    for read in terms.finals:
        deeds = [named(deed) for deed in read.result]
        if whole[: len(deeds)] == deeds:
            continue
        at = next(i for i, deed in enumerate(deeds) if deed != whole[i])
        steps = (
            f"{longest.node} shows {list(whole[at])!r} as deed {at} (event {longest.invoke_index}).",
            f"{read.node} shows {list(deeds[at])!r} there (event {read.invoke_index}).",
        )
        findings.append(Finding(anomaly="trails-differ", operations=(longest, read), steps=steps))
    return findings


def _against_positions(terms: Terms) -> list[Finding]:
    """Find acts whose order on the trail differs from the order of their acknowledged positions."""
    findings: list[Finding] = []
    acts = {named(o.value): o for o in terms.acts if position_of(o) is not None}
    for read in terms.finals[-1:]:
        furthest: Operation | None = None
        for deed in read.result:
            act = acts.get(named(deed))
            if act is None or act is furthest:
                continue
            if furthest is not None and (position_of(act) or 0) <= (position_of(furthest) or 0):
                steps = (
                    f"{_deed(furthest)} was acknowledged at {position_of(furthest)}.",
                    f"{_deed(act)} was acknowledged at {position_of(act)}, but stands behind it on the trail.",
                )
                findings.append(Finding(anomaly="trail-against-positions", operations=(furthest, act), steps=steps))
            else:
                furthest = act
    return findings


def lost_acts(terms: Terms) -> list[Finding]:
    """Find acknowledged acts that a strong read after healing lacks."""
    findings = []
    reported: set[int] = set()
    for read in terms.finals:
        deeds = {named(deed) for deed in read.result}
        for act in terms.acts:
            if not _must_show(read, act) or named(act.value) in deeds or act.invoke_index in reported:
                continue
            reported.add(act.invoke_index)
            steps = (
                f"{_deed(act)} was acknowledged at {seconds(act.completed_ns or 0)}.",
                f"{read.node}, read after that (event {read.invoke_index}), does not have it.",
            )
            findings.append(Finding(anomaly="lost-act", operations=(act, read), steps=steps, about=0))
    return findings


def _must_show(read: Operation, act: Operation) -> bool:
    return act.type is Outcome.OK and act.completed_ns is not None and act.completed_ns < read.invoked_ns


def to_be_shown(terms: Terms) -> list[Operation]:
    """List the acts that the last strong read after healing had to show."""
    return [act for read in terms.finals[-1:] for act in terms.acts if _must_show(read, act)]


def late_resigns(terms: Terms) -> list[Operation]:
    """List the resignations that were sent after a later grant had been acknowledged, and that the store answered."""
    return [
        o
        for o in terms.in_terms
        if o.f == "resign"
        and (o.type is Outcome.OK or (o.type is Outcome.FAIL and o.error == "not-held"))
        and (since_ns := terms.superseded_ns(token_of(o))) is not None
        and o.invoked_ns > since_ns
    ]


def acknowledged_late(terms: Terms) -> list[Finding]:
    """Find those of them that the store acknowledged."""
    findings = []
    for resign in late_resigns(terms):
        later = terms.superseded_by(token_of(resign))
        if resign.type is not Outcome.OK or later is None:
            continue
        steps = (
            f"Term {later.result[0]} was granted to process {later.process} on {later.node} by "
            f"{seconds(later.completed_ns or 0)}.",
            f"Process {resign.process} resigned from the earlier term {token_of(resign)} after that, at "
            f"{seconds(resign.invoked_ns)}.",
            f"{resign.node} acknowledged it, so it ended a term that was not the term of process {resign.process}.",
        )
        findings.append(RESIGNED.finding(later, resign, steps=steps))
    return findings


class Attempts:
    """The acts of leaders whose term had been followed by another one, by how they ended.

    `superseded` were sent after a later grant had been acknowledged; `overtaken` were sent before, and still open then.
    """

    def __init__(self, terms: Terms) -> None:
        self.superseded: Final[dict[str, list[Operation]]] = {}
        self.overtaken: Final[dict[str, list[Operation]]] = {}
        shown = {named(deed) for read in terms.finals for deed in read.result}
        for act in terms.acts:
            since_ns = terms.superseded_ns(token_of(act))
            if since_ns is None:
                continue
            fate = _fate(act, shown, bool(terms.finals))
            if act.invoked_ns > since_ns:
                self.superseded.setdefault(fate, []).append(act)
            elif act.ended_ns is None or act.ended_ns > since_ns:
                self.overtaken.setdefault(fate, []).append(act)

    @property
    def exposed(self) -> list[Operation]:
        """List them without those that failed for another reason, such as a closed connection."""
        kinds = (self.superseded, self.overtaken)
        return [act for kind in kinds for fate, own in kind.items() if fate != "refused_otherwise" for act in own]

    def counted(self) -> dict[str, list[Operation]]:
        """Map the names of figures to the acts that they count."""
        return {
            "superseded_acts": [act for own in self.superseded.values() for act in own],
            **{f"superseded_{fate}": own for fate, own in sorted(self.superseded.items())},
            "overtaken_acts": [act for own in self.overtaken.values() for act in own],
            **{f"overtaken_{fate}": own for fate, own in sorted(self.overtaken.items())},
        }


def _fate(act: Operation, shown: set[tuple[Any, ...]], read: bool) -> str:
    match act.type:
        case Outcome.OK:
            return "acknowledged"
        case Outcome.FAIL:
            return "fenced" if act.error == "fenced" else "refused_otherwise"
        case _:
            if not read:
                return "unknown"
            return "unknown_and_there" if named(act.value) in shown else "unknown_and_absent"


def _deed(act: Operation) -> str:
    return (
        f"Act {act.value[-1]} of term {token_of(act)} by process {act.process} on {act.node} (event {act.invoke_index})"
    )


def _resignation(operation: Operation) -> str:
    where = f"process {operation.process} on {operation.node} (event {operation.invoke_index})"
    return f"The resignation from term {token_of(operation)} by {where}"
