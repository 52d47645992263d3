"""Who believes that it leads, and who is seen to lead: two believers at a time, and observers that go back in time.

A candidate believes from the grant of its term to its last use of it (`elections.terms.beliefs`). What an observer may
see depends on its read mode. A read of a node's own copy may lag, but must not go back within a session. A read that
promises to be current must not lack a term that was known before the read was sent.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, row
from fencepost.checkers.elections.terms import Belief, Terms, token_of
from fencepost.checkers.rules import NothingOlder, says
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.verdict.figures import Figures, Rows, Traced, most

#: The guarantee that observations are held to, by the mode of the read.
OBSERVED_BY_MODE: Final = {
    "plain": "session-order",
    "sync": "fresh-after-sync",
    "barrier": "linearizable",
    "strong": "linearizable",
    "leader": "fresh-from-leader",
}
WENT_BACK: Final = NothingOlder(
    guarantee="session-order",
    anomaly="observed-term-went-back",
    tested="observations that showed another term than the one that their session knew",
    steps=lambda before, seen: _older(before.by, seen.by, "After that"),
)


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """Two candidates believed at the same time that they led, for `length_ns`, between the events in `rows`."""

    finding: Finding
    length_ns: int
    rows: Rows


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the observations showed.

    `changes` are those that showed another term than their session knew. An observation is behind if a later term had
    been granted before it.
    """

    changes: list[Operation]
    figures: Figures


class Known(msgspec.Struct, frozen=True, order=True):
    """A term that was certainly granted; `ended` is 1 if it is known to be over. A later state is the greater value."""

    token: int
    ended: int


def two_believers(held: list[Belief]) -> list[Overlap]:
    """Pair each belief that began while an earlier one lasted with the earlier one that lasted longest."""
    overlaps = []
    longest: Belief | None = None
    for belief in held:
        if longest is not None and belief.from_ns < longest.to_ns:
            first_over = min(belief, longest, key=lambda one: one.to_ns)
            overlap_ns = first_over.to_ns - belief.from_ns
            steps = (
                f"{_believes(longest)}.",
                f"{_believes(belief)}.",
                f"For {overlap_ns / 1e6:.3f} ms both believed that they led.",
            )
            shown = (longest.campaign, longest.last, belief.campaign)
            operations = tuple({o.invoke_index: o for o in shown}.values())
            finding = Finding(anomaly="two-believers", operations=operations, steps=steps)
            between = (belief.from_row, first_over.to_row)
            overlaps.append(Overlap(finding=finding, length_ns=overlap_ns, rows=between))
        if longest is None or belief.to_ns > longest.to_ns:
            longest = belief
    return overlaps


def _believes(belief: Belief) -> str:
    campaign = belief.campaign
    return (
        f"Process {campaign.process} on {campaign.node} was granted term {belief.token} at {seconds(belief.from_ns)} "
        f"and used it until {seconds(belief.to_ns)} (event {belief.last.invoke_index})"
    )


def went_back(terms: Terms, mode: str) -> list[Finding]:
    """Find observations of an older term than their session knew; for current reads, than anybody knew."""
    findings = list(_within_sessions(terms))
    if mode != "plain":
        reported = {finding.operations[-1].invoke_index for finding in findings}
        findings += [finding for finding in _across(terms) if finding.operations[-1].invoke_index not in reported]
    return findings


def _within_sessions(terms: Terms) -> Iterator[Finding]:
    known: dict[tuple[str, int], tuple[Known, Operation]] = {}
    positions: dict[tuple[str, int], Operation] = {}
    for operation in _of_sessions(terms):
        session = _session(operation)
        before = positions.get(session)
        if operation.position is not None:
            if before is not None and (before.position or 0) > operation.position:
                steps = (
                    f"{_sentence(before)}; the reply stands at {before.position}.",
                    f"{_sentence(operation)}, in the same session; the reply stands at {operation.position}.",
                )
                yield Finding(anomaly="position-went-back", operations=(before, operation), steps=steps)
            else:
                positions[session] = operation
        now = _knows(operation)
        if now is None:
            continue
        latest = known.get(session)
        if latest is not None and operation.f == "observe" and now < latest[0]:
            yield WENT_BACK.finding(latest[1], operation, steps=_older(latest[1], operation, "In the same session"))
        if latest is None or now > latest[0]:
            known[session] = (now, operation)


def _of_sessions(terms: Terms) -> list[Operation]:
    """List the answered operations that share a session with observations; a campaign may have a lease of its own."""
    own = [o for o in terms.in_terms if o.type is Outcome.OK and o.f in ("act", "resign")]
    return sorted([*own, *terms.observations], key=lambda o: o.invoke_index)


def _session(operation: Operation) -> tuple[str, int]:
    return ("session", operation.session) if operation.session is not None else ("process", operation.process)


def _knows(operation: Operation) -> Known | None:
    """Return the newest term that the answer shows."""
    match operation.f:
        case "observe":
            return None if operation.result is None else Known(operation.result, 0)
        case "campaign":
            return Known(operation.result[0], 0)
        case _:
            return Known(token_of(operation), int(operation.f == "resign"))


def _across(terms: Terms) -> list[Finding]:
    """Find observations that lack a term which anybody knew before they were sent."""
    sources = [*terms.campaigns, *terms.observations, *terms.resignations]
    known = [says(o, now, of="leader") for o in sources if (now := _knows(o)) is not None]
    observations = [says(o, now, of="leader") for o in terms.observations if (now := _knows(o)) is not None]
    return [*WENT_BACK.judge(observations, known).findings]


def _older(before: Operation, observation: Operation, when: str) -> tuple[str, str]:
    return (
        f"{_sentence(before)} by {seconds(before.completed_ns or 0)}.",
        f"{when}, asked at {seconds(observation.invoked_ns)}: {_sentence(observation)}.",
    )


def _sentence(operation: Operation) -> str:
    where = f"process {operation.process} on {operation.node} (event {operation.invoke_index})"
    match operation.f:
        case "observe":
            seen = "no leader" if operation.result is None else f"term {operation.result}"
            return f"{seen} was shown to {where}"
        case "campaign":
            return f"term {operation.result[0]} was granted to {where}"
        case "resign":
            return f"term {token_of(operation)} was resigned by {where}"
        case _:
            return f"an act of term {token_of(operation)} was acknowledged to {where}"


def observed(terms: Terms) -> Observed:
    """What is counted and measured of observations."""
    changes, nobody = [], []
    known: dict[tuple[str, int], int] = {}
    behind: list[tuple[int, Operation, Operation]] = []
    for observation in terms.observations:
        token, session = observation.result, _session(observation)
        if token is None:
            nobody.append(observation)
            continue
        if known.get(session, token) != token:
            changes.append(observation)
        known[session] = token
        later = terms.superseded_by(token)
        if later is not None and observation.invoked_ns > (later.completed_ns or 0):
            behind.append((observation.invoked_ns - (later.completed_ns or 0), later, observation))
    return Observed(
        changes=changes,
        figures={
            "observations": number_of(terms.observations),
            "observed_nobody": number_of(nobody),
            "observed_behind": number_of(observation for _, _, observation in behind),
            "observed_behind_ns_max": most(
                Traced(lag_ns, (row(later), observation.invoke_index)) for lag_ns, later, observation in behind
            ),
        },
    )
