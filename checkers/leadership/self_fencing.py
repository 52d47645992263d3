"""Does a leader that is cut off from every majority stop claiming within the system's own bound?

It failed only if nothing else explains its claims, that is, if all of these hold:
  - the cut is proven at both ends, and severs both directions between the node and every majority;
  - three successive samples over at least a second claim the old epoch, all inside the cut and after a higher epoch
    had begun;
  - at the last of them the node had run since the cut began for more than 1.5 times the bound and a second;
  - neither harness nor machine stalled between the beginning of the cut and that sample. The harness's own samples of
    its health must reach past it, or a stall cannot be ruled out.

A leader's own log may say that it resigned inside the cut: then it led until then, whatever it was asked.

Running time leaves out every interval in which the node may have been stopped, proven or not: a pause that took hold
without proof must not count against the node. It is counted by the node's own clocks (`facts.clocks`): a node whose
clock runs slow, or was put back, may claim for longer.

The guarantee was put to the test by every answer that would have been the violation if it had been a claim. A claim
beyond the limit that is no violation, because one of the conditions fails, makes the verdict `unknown`.

Source: a leader steps down if an election time-out passes without a successful round of heartbeats to a majority
(Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 6.2). The bound itself is each system's own.
"""

from bisect import bisect_left, bisect_right
from typing import Final

import msgspec

from fencepost.checkers.derived.claims import Landmarks
from fencepost.checkers.derived.clocks import OwnTime, Stall, overlapping, stalls_of, watched_until
from fencepost.checkers.derived.reigns import LeaderSample, Reign, Reigns
from fencepost.checkers.derived.servers import Cut, cuts, possibly_stopped
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration
from fencepost.harness.history import Claim, History
from fencepost.harness.verdict import Cause, Facts, LeadershipBound, Standing, Verdict
from fencepost.harness.verdict.figures import Figures, Rows, Traced, tally

GUARANTEE: Final = "leader-self-fencing"
FAILED: Final = Rule(
    guarantee=GUARANTEE,
    anomaly="self-fencing-failed",
    tested="times that a cut-off leader was asked whether it leads, later than its limit",
)
SAMPLES_MIN: Final = 3
SPAN_NS_MIN: Final = 1_000_000_000
_CUTS_SHOWN: Final = 50


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """Successive claims of a cut-off leader beyond the bound, and what else could explain them.

    `running_ns` is how long the node had run since the cut began, at the last of `samples`. `unwatched`: no sample of
    the harness's health covers that time.
    """

    reign: Reign
    cut: Cut
    samples: tuple[LeaderSample, ...]
    running_ns: int
    stalls: tuple[Stall, ...]
    unwatched: bool


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """The node of `cut` still led at `at_ns`, when it had run for `ran_ns` in it; `rows` claim it, or end it.

    `epoch` is None where it is not certain; `named` are the rows that name it.
    """

    incarnation: int
    epoch: int | None
    ran_ns: int
    at_ns: int
    rows: Rows
    named: Rows
    cut: Cut


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The answers inside a cut of the node that led when it was cut off.

    `beyond` are its answers later than the limit. `chances` are the answers among them that would have made the
    violation if they had been claims. `claims` are all claims inside the cut.
    """

    beyond: tuple[LeaderSample, ...] = ()
    chances: tuple[LeaderSample, ...] = ()
    claims: tuple[Late, ...] = ()


def judge(history: History, facts: Facts, reigns: Reigns, subject: str) -> list[Verdict]:
    """Judge whether leaders that were cut off stopped claiming in time.

    Args:
        history: one run.
        facts: `leadership` has the bound in nanoseconds, the limit derived from it, and the clocks that count.
        reigns: the reigns of one subject of this history.
        subject: their subject, which may have a bound of its own.

    Returns:
        One verdict, which counts the answers of cut-off leaders beyond the limit; none where the system states no
        bound, since claims are only figures then.
    """
    bound = None if facts.leadership is None else facts.leadership.of(subject)
    limit_ns = None if bound is None else bound.limit_ns
    if bound is None or limit_ns is None:
        return []
    stalls = stalls_of(history, facts.thresholds.stall_ns_max)
    marks = Landmarks(history)
    failures: list[Claimed] = []
    beyond: list[LeaderSample] = []
    chances: list[LeaderSample] = []
    claims: list[Late] = []
    beyond_ns = 0
    beyond_rows: Rows = ()
    all_cuts = cuts(history, facts.nodes, facts.voters)
    of_node = {node: [s for s in reigns.samples if s.node == node] for node in facts.nodes}
    times = {node: OwnTime(history, node, possibly_stopped(history, node), bound.clocks) for node in facts.nodes}
    for cut in all_cuts:
        time, own = times[cut.node], of_node[cut.node]
        # In the order of questions, lo never decreases; what lies outside the cut would only end a run.
        first = bisect_left(own, cut.from_ns, key=lambda s: s.lo_ns)
        inside = own[first : bisect_right(own, cut.to_ns, key=lambda s: s.lo_ns)]
        for reign in reigns.reigns:
            if reign.node == cut.node and reign.until_ns >= cut.from_ns:
                claimed = _first_failure(history, reign, inside, cut, limit_ns, time, stalls)
                failures += [claimed] if claimed else []
                claims += _resigned(reign, cut, time, marks)
        watched = _watched(reigns, own[:first], inside, cut, limit_ns, time, marks)
        beyond += watched.beyond
        chances += watched.chances
        claims += watched.claims
        if watched.beyond:
            first_beyond, last_beyond = (pick(watched.beyond, key=lambda s: s.lo_ns) for pick in (min, max))
            beyond_ns += last_beyond.lo_ns - first_beyond.lo_ns
            beyond_rows += (*marks.since(first_beyond), *marks.since(last_beyond))
    longest = max(claims, key=lambda claim: claim.ran_ns, default=None)
    figures = {
        "bound_ns": bound.bound_ns,
        "bound_source": bound.source,
        "limit_running_ns": limit_ns,
        "cuts_from_every_majority": Traced(len(all_cuts), tuple(i for cut in all_cuts for i in marks.at(cut.from_ns))),
        "cuts": tuple(
            {
                "node": cut.node,
                "from_ns": Traced(cut.from_ns, marks.at(cut.from_ns)),
                "to_ns": Traced(cut.to_ns, marks.at(cut.to_ns)),
                "fault_ids": cut.fault_ids,
            }
            for cut in all_cuts[:_CUTS_SHOWN]
        ),
        "claims_in_cuts": _last_claims(claims, times, marks),
        "samples_beyond_bound": tally(s.index for s in beyond),
        "observed_beyond_bound_ns": Traced(beyond_ns, beyond_rows),
        "running_ns_max_when_claimed": Traced(0) if longest is None else _ran(longest, times, marks),
        "claims_in_doubt": tally(c.samples[-1].index for c in failures if _doubtful(c)),
    }
    doubt = _doubt(failures) or _unproven(failures, claims, limit_ns)
    bounded = msgspec.structs.replace(facts, leadership=bound)
    return [_verdict(history, bounded, failures, doubt, chances, all_cuts, figures)]


def _last_claims(claims: list[Late], times: dict[str, OwnTime], marks: Landmarks) -> tuple[Figures, ...]:
    """Return the last claim of each reign in each cut, in the order of the cuts."""
    last: dict[tuple[str, int, int, int], Late] = {}
    for claim in claims:
        if claim.epoch is not None:
            which = claim.cut.node, claim.cut.from_ns, claim.incarnation, claim.epoch
            last[which] = max(last.get(which, claim), claim, key=lambda c: c.at_ns)
    return tuple(
        {
            "node": node,
            "incarnation": incarnation,
            "epoch": Traced(epoch, claim.named),
            "cut_from_ns": Traced(from_ns, marks.at(from_ns)),
            "to_ns": Traced(claim.at_ns, claim.rows),
            "ran_ns": _ran(claim, times, marks),
        }
        for (node, from_ns, incarnation, epoch), claim in list(last.items())[:_CUTS_SHOWN]
    )


def _ran(last: Late, times: dict[str, OwnTime], marks: Landmarks) -> Traced[int]:
    """From the cut to the last claim, less the stops between them, by the node's own clocks."""
    from_ns = last.cut.from_ns
    time = times[last.cut.node]
    stops = marks.inside(time.stopped, from_ns, last.at_ns)
    rows = (*marks.at(from_ns), *last.rows, *stops, *time.rows(from_ns, last.at_ns))
    return Traced(last.ran_ns, rows)


def _resigned(reign: Reign, cut: Cut, time: OwnTime, marks: Landmarks) -> list[Late]:
    """Until when its own log says that it led, if it resigned inside the cut."""
    line = reign.resigned
    if line is None or not cut.from_ns < line.asked_ns <= line.time_ns <= cut.to_ns:
        return []
    ran_ns = time.running_ns(cut.from_ns, line.asked_ns)
    return [
        Late(
            incarnation=reign.incarnation,
            epoch=reign.epoch,
            ran_ns=ran_ns,
            at_ns=line.asked_ns,
            rows=(line.index,),
            named=marks.named(reign.samples[-1]),
            cut=cut,
        )
    ]


def _doubtful(claimed: Claimed) -> bool:
    return bool(claimed.stalls) or claimed.unwatched


def _first_failure(
    history: History,
    reign: Reign,
    inside: list[LeaderSample],
    cut: Cut,
    limit_ns: int,
    time: OwnTime,
    stalls: list[Stall],
) -> Claimed | None:
    """The earliest run of successive samples that fails, so that the fewest stalls can overlap it."""
    begin = reign.superseded
    if begin is None:
        return None
    run: list[LeaderSample] = []
    for sample in inside:
        claims = sample.claims is Claim.YES and sample.epoch == reign.epoch and sample.incarnation == reign.incarnation
        if not (sample.hi_ns <= cut.to_ns and claims and begin.at_ns < sample.lo_ns):
            run = []
            continue
        run.append(sample)
        running_ns = time.running_ns(cut.from_ns, sample.lo_ns)
        long = sample.lo_ns - min(s.hi_ns for s in run) >= SPAN_NS_MIN
        if len(run) >= SAMPLES_MIN and long and running_ns > limit_ns:
            return Claimed(
                reign=reign,
                cut=cut,
                samples=tuple(run),
                running_ns=running_ns,
                stalls=tuple(overlapping(stalls, cut.from_ns, sample.hi_ns)),
                unwatched=watched_until(history) < sample.hi_ns,
            )
    return None


def _watched(
    reigns: Reigns,
    earlier: list[LeaderSample],
    inside: list[LeaderSample],
    cut: Cut,
    limit_ns: int,
    time: OwnTime,
    marks: Landmarks,
) -> Watched:
    """What the node said in the cut; nothing of one that did not claim to lead when last asked before."""
    before = next((s for s in reversed(earlier) if s.claims is not Claim.SILENT and s.hi_ns <= cut.from_ns), None)
    if before is None or before.claims is not Claim.YES:
        return Watched()
    answers = [
        s
        for s in inside
        if s.claims is not Claim.SILENT and s.hi_ns <= cut.to_ns and s.incarnation == before.incarnation
    ]
    ran = [(time.running_ns(cut.from_ns, s.lo_ns), s) for s in answers]
    begin = None if before.epoch is None else reigns.superseded(before.epoch)
    after = [] if begin is None else [s for s in answers if begin.at_ns < s.lo_ns]
    late = {s.index for ran_ns, s in ran if ran_ns > limit_ns}
    enough = after[SAMPLES_MIN - 1 :]
    return Watched(
        beyond=tuple(s for s in answers if s.index in late),
        chances=tuple(s for s in enough if s.index in late and s.lo_ns - after[0].hi_ns >= SPAN_NS_MIN),
        claims=tuple(
            Late(
                incarnation=s.incarnation,
                epoch=s.epoch,
                ran_ns=ran_ns,
                at_ns=s.lo_ns,
                rows=marks.since(s),
                named=marks.named(s),
                cut=cut,
            )
            for ran_ns, s in ran
            if s.claims is Claim.YES
        ),
    )


def _unproven(failures: list[Claimed], claims: list[Late], limit_ns: int) -> Doubt | None:
    """Claims beyond the limit that are no violation: too few, or of a time in which no later epoch is known."""
    longest_ns = max((claim.ran_ns for claim in claims), default=0)
    if failures or longest_ns <= limit_ns:
        return None
    return Doubt(
        Cause.UNDECIDED,
        f"a cut-off leader claimed after {duration(longest_ns)} of running, beyond {duration(limit_ns)}, but not in "
        f"{SAMPLES_MIN} successive answers over a second after a later epoch had begun",
    )


def _verdict(
    history: History,
    facts: Facts,
    failures: list[Claimed],
    doubt: Doubt | None,
    chances: list[LeaderSample],
    all_cuts: list[Cut],
    figures: Figures,
) -> Verdict:
    proven = [c for c in failures if not _doubtful(c)]
    bound = facts.leadership
    assert bound is not None
    limit_ns, bound_ns = bound.limit_ns, bound.bound_ns
    assert limit_ns is not None
    assert bound_ns is not None
    policy = "" if bound.standing is Standing.PROMISED else " (the system promises no bound: this one is policy)"
    ran = duration(max((c.running_ns for c in proven), default=0))
    longest_ns = figures["running_ns_max_when_claimed"].value
    untested = _untested(all_cuts, limit_ns, beyond=bool(figures["samples_beyond_bound"].value))
    failed = [_finding(history, bound, c) for c in proven]
    return verdict(
        facts,
        FAILED.here(lacks=untested).tally(failed, tuple(s.index for s in chances)),
        broken=f"a leader cut off from every majority still claimed to lead after {ran} of running{policy}",
        doubt=doubt,
        kept=f"no cut-off leader claimed beyond {duration(limit_ns)} of running (bound {duration(bound_ns)}); longest "
        f"claim {duration(longest_ns) if longest_ns else 'none'}{policy}",
        figures=figures,
    )


def _untested(all_cuts: list[Cut], limit_ns: int, *, beyond: bool) -> str:
    """Why no answer could have been a violation."""
    if beyond:
        return (
            "a cut-off leader was observed for longer than its bound, but not by three answers over a second after a "
            "later epoch had begun"
        )
    untested = "no leader was cut off from every majority and then observed for longer than its bound"
    longest_ns = max((c.to_ns - c.from_ns for c in all_cuts), default=0)
    if 0 < longest_ns <= limit_ns:
        untested += f": cuts lasted {duration(longest_ns)} at most, and {duration(limit_ns)} must pass in one"
    return untested


def _doubt(failures: list[Claimed]) -> Doubt | None:
    """Return what else explains claims beyond the bound."""
    if not failures:
        return None
    stall = next((s for c in failures for s in c.stalls), None)
    what = f"{stall.what} stalled for {duration(stall.length_ns)}" if stall else "no health samples cover it"
    return Doubt(Cause.STALLED, f"a cut-off leader claimed beyond the bound, but {what}")


def _finding(history: History, bound: LeadershipBound, claimed: Claimed) -> Finding:
    reign, cut, samples = claimed.reign, claimed.cut, claimed.samples
    begin = reign.superseded
    assert begin is not None
    assert bound.bound_ns is not None
    faults = [f for f in history.faults if f.fault_id in cut.fault_ids]
    events = {i for f in faults for i in f.events} | {begin.event, samples[0].index, samples[-1].index}
    middle = samples[len(samples) // 2]
    return Finding(
        anomaly=FAILED.anomaly,
        events=tuple(events | {middle.index}),
        counted_by=samples[-1].index,
        steps=(
            f"{cut.node} was cut off from every majority, in both directions, for {duration(cut.to_ns - cut.from_ns)}.",
            f"Epoch {begin.epoch} had begun {duration(begin.at_ns - cut.from_ns)} after the cut: {begin.how}."
            if begin.at_ns >= cut.from_ns
            else f"Epoch {begin.epoch} had begun before the cut: {begin.how}.",
            f"{len(samples)} successive answers of {cut.node} still claimed epoch {reign.epoch}, over "
            f"{duration(samples[-1].lo_ns - samples[0].hi_ns)}.",
            f"At the last of them {cut.node} had run for {duration(claimed.running_ns)} since the cut; its bound is "
            f"{duration(bound.bound_ns)} ({bound.source}), judged at 1.5 times that and a second.",
        ),
        from_ns=cut.from_ns,
        to_ns=samples[-1].hi_ns,
        nodes=(cut.node,),
    )
