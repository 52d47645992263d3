"""Judge an election whose leaders act again and again: does an act of an old term take effect after the term is over?

The verdicts:
  one-acting-leader    in the store's own order every act stands in its term: after its grant, before the next grant and
                       before its leader's resignation. Shown by the trail as read after healing and by acknowledged
                       positions, so no clock decides. An act that was refused must not be there.
  terms-grow           a term that was asked for after another one was granted has a greater token; no token twice.
  one-believed-leader  how often, and for how long, two candidates both believed that they led. With leases nothing
                       prevents that (Kleppmann, "How to do distributed locking", 2016), so it decides only where acts
                       are not guarded: then nothing else stands between two leaders.
  (by read mode)       no observer sees an older term after a newer one: within its session, and for reads that promise
                       to be current across all of them.
Beside them, no acknowledged act may be missing (no-lost-acknowledged-writes).
"""

from collections import Counter
from typing import Any, Final

from checkers.election_beliefs import OBSERVED_BY_MODE, observed, two_believers, went_back
from checkers.election_terms import End, Terms, beliefs, named, position_of, token_of
from checkers.register_anomalies import seconds
from checkers.sets import Finding, weak_reads, witness
from harness.history import History
from harness.operation import Operation, Outcome
from harness.verdict import Facts, Validity, Verdict

CHECKER: Final = "election"
ACTING: Final = "one-acting-leader"
BELIEVED: Final = "one-believed-leader"
GROW: Final = "terms-grow"
KEPT: Final = "no-lost-acknowledged-writes"
_WITNESSES_MAX: Final = 5

_EXPOSURE_OF: Final = {
    ACTING: "acts that were sent, or still open, when a later term had been granted",
    BELIEVED: "terms that were granted after another one",
    GROW: "terms that were asked for after another one was granted",
    KEPT: "acknowledged acts that a strong read after healing had to show",
}


def check(history: History, facts: Facts) -> list[Verdict]:
    """The verdicts of the module's docstring, in its order. Cost: O(n log n)."""
    terms = Terms(history)
    fenced = facts.options.get("fencing", "on") in ("on", True)
    weak = weak_reads(facts)
    held = beliefs(terms)
    overlaps = two_believers(held)
    attempts = Attempts(terms)
    acting = acts_out_of_term(terms) + impossible_acts(terms)
    return [
        _verdict(
            ACTING if fenced else BELIEVED,
            acting,
            exposure=attempts.exposure,
            exposure_of=_EXPOSURE_OF[ACTING],
            # Positions that were acknowledged can prove a violation, but not that there is none.
            lacks=weak or ("" if terms.finals else "no strong read of the trail after healing"),
            facts=facts,
            figures={"fencing": "on" if fenced else "off", **attempts.figures()},
        ),
        _verdict(
            GROW,
            terms_out_of_order(terms),
            exposure=_sequels(terms),
            facts=facts,
            figures={"terms": len(terms.granted), "campaigns_ok": len(terms.campaigns)},
        ),
        _verdict(
            BELIEVED,
            [finding for finding, _ in overlaps],
            exposure=max(0, len(held) - 1),
            facts=facts,
            figures={
                "two_believers": len(overlaps),
                "two_believers_ns_max": max((length_ns for _, length_ns in overlaps), default=0),
                "two_believers_ns": sum(length_ns for _, length_ns in overlaps),
                "believed_ns_max": max((b.to_ns - b.from_ns for b in held), default=0),
            },
        ),
        _verdict(
            OBSERVED_BY_MODE[facts.options.get("observe", "plain")],
            went_back(terms, facts.options.get("observe", "plain")),
            **observed(terms),
            facts=facts,
        ),
        _verdict(
            KEPT,
            [] if weak else lost_acts(terms),
            exposure=_to_be_shown(terms),
            lacks=weak,
            facts=facts,
            figures={},
        ),
    ]


def _verdict(
    guarantee: str,
    findings: list[Finding],
    *,
    exposure: int,
    facts: Facts,
    figures: dict[str, Any],
    exposure_of: str | None = None,
    lacks: str = "",
) -> Verdict:
    counted = exposure_of or _EXPOSURE_OF[guarantee]
    if findings:
        validity, reason = Validity.INVALID, f"{len(findings)} violations"
    elif lacks:
        validity, reason = Validity.UNKNOWN, lacks
    elif exposure < facts.thresholds.exposure_min:
        least = facts.thresholds.exposure_min
        validity, reason = Validity.UNKNOWN, f"{exposure} {counted}; at least {least} are asked for"
    else:
        validity, reason = Validity.VALID, ""
    return Verdict(
        checker=CHECKER,
        guarantee=guarantee,
        validity=validity,
        reason=reason,
        exposure=exposure,
        exposure_of=counted,
        anomalies=dict(Counter(finding.anomaly for finding in findings)),
        witnesses=tuple(witness(finding) for finding in _one_of_each_first(findings)[:_WITNESSES_MAX]),
        figures=figures,
    )


# Who acts


def acts_out_of_term(terms: Terms) -> list[Finding]:
    """Acts that took effect when their term was over: by their place on the trail, else by their position."""
    found: list[Finding] = []
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
            # An act without a position stands behind everything that stands before it.
            reached = max(reached, position or 0, token_of(act))
            end = terms.end(token_of(act))
            if newest is not None and token_of(newest) > token_of(act):
                found.append(_old_after_new(newest, act, trail))
            elif end is not None and (position or reached) >= end.position:
                found.append(_after_the_end(act, end, position))
            if newest is None or token_of(act) > token_of(newest):
                newest = act
    for act in terms.acts:
        position, end = position_of(act), terms.end(token_of(act))
        if named(act.value) not in placed and position is not None and end is not None and position >= end.position:
            found.append(_after_the_end(act, end, position))
    return found


def _old_after_new(newer: Operation, act: Operation, trail: Operation) -> Finding:
    steps = (
        f"{_deed(newer)} is on the trail.",
        f"{_deed(act)}, of the earlier term {token_of(act)}, stands behind it in the store's own order.",
        f"So read by {trail.node} after healing (event {trail.invoke_index}): an act of an old term took effect after "
        f"one of a new term.",
    )
    return Finding(anomaly="old-term-acted", operations=(newer, act, trail), steps=steps)


def _after_the_end(act: Operation, end: End, position: int | None) -> Finding:
    over = (
        f"Its leader's resignation stands at {end.position}."
        if end.resigned
        else f"A later term was granted at {end.position}, its token."
    )
    stands = f"at {position}" if position is not None else "behind acts that stand at that place or later"
    steps = (
        f"{_deed(act)} took effect and stands {stands}.",
        over,
        f"So it took effect when term {token_of(act)} was over.",
    )
    shown = (act,) if end.operation is None else (end.operation, act)
    return Finding(anomaly="acted-after-its-term", operations=shown, steps=steps)


def impossible_acts(terms: Terms) -> list[Finding]:
    """Deeds on the trail that were refused, that nobody did, or that stand there twice; trails that differ in order."""
    found: list[Finding] = []
    acts = {named(o.value): o for o in terms.acts}
    told: set[tuple[str, tuple[Any, ...]]] = set()
    for read in terms.finals:
        deeds = [named(deed) for deed in read.result]
        for deed, times in Counter(deeds).items():
            act = acts.get(deed)
            anomaly = _impossible(act, times, read)
            if anomaly is None or (anomaly[0], deed) in told:
                continue
            told.add((anomaly[0], deed))
            shown = (read,) if act is None else (act, read)
            steps = (f"{read.node} shows {list(deed)!r} on the trail (event {read.invoke_index}).", anomaly[1])
            found.append(Finding(anomaly=anomaly[0], operations=shown, steps=steps))
    return found + _trails_that_differ(terms)


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
    """Each strong read must show the beginning of what the longest one shows, since nothing is ever removed."""
    if not terms.finals:
        return []
    longest = max(terms.finals, key=lambda read: len(read.result))
    whole = [named(deed) for deed in longest.result]
    found = []
    for read in terms.finals:
        deeds = [named(deed) for deed in read.result]
        if whole[: len(deeds)] == deeds:
            continue
        at = next(i for i, deed in enumerate(deeds) if deed != whole[i])
        steps = (
            f"{longest.node} shows {list(whole[at])!r} as deed {at} (event {longest.invoke_index}).",
            f"{read.node} shows {list(deeds[at])!r} there (event {read.invoke_index}).",
        )
        found.append(Finding(anomaly="trails-differ", operations=(longest, read), steps=steps))
    return found


def lost_acts(terms: Terms) -> list[Finding]:
    """Acknowledged acts that a strong read after healing lacks."""
    found = []
    told: set[int] = set()
    for read in terms.finals:
        deeds = {named(deed) for deed in read.result}
        for act in terms.acts:
            if not _must_show(read, act) or named(act.value) in deeds or act.invoke_index in told:
                continue
            told.add(act.invoke_index)
            steps = (
                f"{_deed(act)} was acknowledged at {seconds(act.completed_ns or 0)}.",
                f"{read.node}, read after that (event {read.invoke_index}), does not have it.",
            )
            found.append(Finding(anomaly="lost-act", operations=(act, read), steps=steps))
    return found


def _must_show(read: Operation, act: Operation) -> bool:
    return act.type is Outcome.OK and act.completed_ns is not None and act.completed_ns < read.invoked_ns


def _to_be_shown(terms: Terms) -> int:
    return sum(_must_show(read, act) for read in terms.finals[-1:] for act in terms.acts)


class Attempts:
    """What leaders did whose term had been followed by another one, and what became of it.

    `superseded`: sent when a later grant had been acknowledged. `overtaken`: sent before, and still open then.
    """

    def __init__(self, terms: Terms) -> None:
        self.superseded: Counter[str] = Counter()
        self.overtaken: Counter[str] = Counter()
        shown = {named(deed) for read in terms.finals for deed in read.result}
        for act in terms.acts:
            since_ns = terms.superseded_ns(token_of(act))
            if since_ns is None:
                continue
            fate = _fate(act, shown, bool(terms.finals))
            if act.invoked_ns > since_ns:
                self.superseded[fate] += 1
            elif act.ended_ns is None or act.ended_ns > since_ns:
                self.overtaken[fate] += 1

    @property
    def exposure(self) -> int:
        """Without those that were refused for another reason, as that no connection was open."""
        return sum(
            n for kind in (self.superseded, self.overtaken) for fate, n in kind.items() if fate != "refused_otherwise"
        )

    def figures(self) -> dict[str, Any]:
        """How many there were, and how they ended."""
        return {
            "superseded_acts": self.superseded.total(),
            **{f"superseded_{fate}": n for fate, n in sorted(self.superseded.items())},
            "overtaken_acts": self.overtaken.total(),
            **{f"overtaken_{fate}": n for fate, n in sorted(self.overtaken.items())},
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


# Terms


def terms_out_of_order(terms: Terms) -> list[Finding]:
    """Tokens that were granted twice, or that are smaller than one granted before they were asked for."""
    found: list[Finding] = []
    for campaign in terms.campaigns:
        first = terms.granted[campaign.result[0]]
        if first is not campaign:
            steps = (f"{_grant(first)}.", f"{_grant(campaign)} again: no two terms may have one token.")
            found.append(Finding(anomaly="same-term-twice", operations=(first, campaign), steps=steps))
    done = sorted(terms.campaigns, key=lambda o: o.completed_ns or 0)
    greatest: Operation | None = None
    at = 0
    for campaign in terms.campaigns:
        while at < len(done) and (done[at].completed_ns or 0) < campaign.invoked_ns:
            if greatest is None or done[at].result[0] > greatest.result[0]:
                greatest = done[at]
            at += 1
        if greatest is not None and campaign.result[0] < greatest.result[0]:
            steps = (
                f"{_grant(greatest)} by {seconds(greatest.completed_ns or 0)}.",
                f"{_grant(campaign)}, asked for later, at {seconds(campaign.invoked_ns)}: terms must grow.",
            )
            found.append(Finding(anomaly="term-went-back", operations=(greatest, campaign), steps=steps))
    return found


def _sequels(terms: Terms) -> int:
    first_ns = min((o.completed_ns or 0 for o in terms.campaigns), default=0)
    return sum(o.invoked_ns > first_ns for o in terms.campaigns)


def _deed(act: Operation) -> str:
    return (
        f"Act {act.value[-1]} of term {token_of(act)} by process {act.process} on {act.node} (event {act.invoke_index})"
    )


def _grant(campaign: Operation) -> str:
    return (
        f"Process {campaign.process} on {campaign.node} was granted term {campaign.result[0]} "
        f"(event {campaign.invoke_index})"
    )


def _one_of_each_first(findings: list[Finding]) -> list[Finding]:
    """Every kind of anomaly is shown before a second one of the same kind."""
    rank: Counter[str] = Counter()
    ranked = []
    for i, finding in enumerate(findings):
        ranked.append((rank[finding.anomaly], i, finding))
        rank[finding.anomaly] += 1
    return [finding for _, _, finding in sorted(ranked, key=lambda entry: entry[:2])]
