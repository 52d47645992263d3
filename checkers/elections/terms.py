"""The terms of an election in a history: who was granted which term, when it was over, and what was done in it.

The token of a term is the position of its grant in the store's order of changes. So the term's reign in that order
begins at its token, and ends before the next token that was granted or at its leader's resignation. An act with a known
position is in its own reign or not: no clock is needed.

Where grants have no position, tokens only say which term is later. On Kafka a term is a producer's epoch, which is kept
apart from what is done in the term. There the order of the trail shows reigns, and so does time: an act that was sent
after a later grant had been acknowledged was sent after its term.

A candidate believes that it leads from the grant of its term to its last use of it. What an observer may
see depends on its read mode. A read of a node's own copy may lag, but must not go back within a session. A read that
promises to be current must not lack a term that was known before the read was sent.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import grouped, number_of, row
from fencepost.checkers.derived.positions import final_reads, write_position
from fencepost.checkers.rules import NothingOlder, says
from fencepost.checkers.storage.sessions import session_of
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict.figures import Figures, Rows, Traced, most

#: Errors that tell a leader that its term is over.
TOLD: Final = frozenset({"fenced", "lease-expired", "not-held"})
_IN_A_TERM: Final = frozenset({"act", "renew", "resign"})


class TermEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The latest position at which a term was over: another term was granted there, or its own leader resigned."""

    position: int
    operation: Operation | None
    resigned: bool


class Terms:
    """The terms of one history's election, and the operations in them.

    Raises MalformedHistory if an operation does not carry its term. Cost of making it: O(n log n) for n operations.
    """

    def __init__(self, history: History) -> None:
        operations = history.operations
        self.campaigns: Final = [o for o in operations if o.f == "campaign" and o.type is Outcome.OK]
        for campaign in self.campaigns:
            _term(campaign, campaign.result)
        #: Campaigns that did not win, or of which nobody knows.
        self.unanswered: Final = [o for o in operations if o.f == "campaign" and o.type is not Outcome.OK]
        self.in_terms: Final = [o for o in operations if o.f in _IN_A_TERM]
        for operation in self.in_terms:
            _term(operation, operation.value)
        self.acts: Final = [o for o in self.in_terms if o.f == "act"]
        self.observations: Final = [o for o in operations if o.f == "observe" and o.type is Outcome.OK]
        self.confirmations: Final = [o for o in operations if o.f == "confirm" and o.type is Outcome.OK]
        for confirmation in self.confirmations:
            _term(confirmation, confirmation.value)
        self.resignations: Final = [o for o in self.in_terms if o.f == "resign" and o.type is Outcome.OK]
        self.finals: Final = [o for o in final_reads(history) if o.f == "members"]
        self.granted: Final[dict[int, Operation]] = {}
        for campaign in self.campaigns:
            self.granted.setdefault(campaign.result[0], campaign)
        #: Whether tokens are positions of grants: one grant that names a position shows it.
        self.positioned: Final = any(o.position is not None for o in self.campaigns)
        self._resigned: Final = {token_of(o): o for o in reversed(self.resignations) if o.position is not None}
        self._tokens: Final = sorted(self._known_tokens())
        self._superseded: Final = self._first_grants()

    def _known_tokens(self) -> set[int]:
        """Return the tokens that were certainly granted: acknowledged, or observed, or on the trail."""
        seen = {o.result for o in self.observations if o.result is not None}
        done = {deed[0] for read in self.finals for deed in read.result}
        return {*self.granted, *seen, *done}

    def _first_grants(self) -> list[tuple[int, Operation]]:
        """(token, grant), tokens descending: the first acknowledged grant of that token or a greater one."""
        grants: list[tuple[int, Operation]] = []
        for token, campaign in sorted(self.granted.items(), reverse=True):
            earlier = bool(grants) and (grants[-1][1].completed_ns or 0) <= (campaign.completed_ns or 0)
            grants.append((token, grants[-1][1] if earlier else campaign))
        return grants

    def superseded_by(self, token: int) -> Operation | None:
        """Return the first acknowledged grant of a later term; None if there is none."""
        # Tokens descend, so the greater ones stand in front.
        above = bisect_left(self._superseded, -token, key=lambda entry: -entry[0])
        return self._superseded[above - 1][1] if above else None

    def superseded_ns(self, token: int) -> int | None:
        """Return when it was certain that a later term had been granted; None if it never was."""
        later = self.superseded_by(token)
        return None if later is None else later.completed_ns or 0

    def end(self, token: int) -> TermEnd | None:
        """Return the first known end of a term in the store's order; None also where terms have no positions."""
        if not self.positioned:
            return None
        i = bisect_right(self._tokens, token)
        resignation = self._resigned.get(token)
        left_at = resignation.position if resignation is not None else None
        if i < len(self._tokens) and (left_at is None or self._tokens[i] < left_at):
            later = self._tokens[i]
            return TermEnd(position=later, operation=self.granted.get(later), resigned=False)
        return None if left_at is None else TermEnd(position=left_at, operation=resignation, resigned=True)


def _term(operation: Operation, value: Any) -> None:
    if isinstance(value, (list, tuple)) and len(value) >= 2 and isinstance(value[0], int):
        return
    raise MalformedHistory(
        f"event {operation.invoke_index}: a {operation.f} carries its term as [token, handle, ...], not {value!r}"
    )


def token_of(operation: Operation) -> int:
    """Return the token of an act, renewal, confirmation or resignation."""
    token: int = operation.value[0]
    return token


def named(deed: Any) -> tuple[Any, ...]:
    """Return an entry of the trail as a value that can be compared and looked up."""
    return tuple(deed)


def position_of(act: Operation) -> int | None:
    """Return the position at which the store put an acknowledged act."""
    return write_position(act) if act.type is Outcome.OK else None


class Belief(msgspec.Struct, frozen=True, kw_only=True):
    """From `from_ns` to `to_ns` the holder of a term certainly believed that it led: from the grant to its last use.

    This is a lower bound: what a candidate believes after its last operation as a leader is unknown. `from_row` and
    `to_row` are the events of these two moments.
    """

    token: int
    campaign: Operation
    last: Operation
    from_ns: int
    to_ns: int

    @property
    def from_row(self) -> int:
        return row(self.campaign)

    @property
    def to_row(self) -> int:
        return self.from_row if self.last is self.campaign else self.last.invoke_index


def beliefs(terms: Terms) -> list[Belief]:
    """Return one belief for each acknowledged term, in the order in which they began."""
    of_term = grouped(terms.in_terms, token_of)
    of_terms = [_belief(campaign, of_term.get(token, ())) for token, campaign in terms.granted.items()]
    return sorted(of_terms, key=lambda belief: belief.from_ns)


def _belief(campaign: Operation, operations: Iterable[Operation]) -> Belief:
    granted_ns = campaign.completed_ns or 0
    own = list(operations)
    told_ns = min((o.completed_ns for o in own if _tells(o) and o.completed_ns is not None), default=None)
    last = campaign
    for operation in own:
        if operation.invoked_ns >= granted_ns and (told_ns is None or operation.invoked_ns < told_ns):
            last = operation
    last_ns = granted_ns if last is campaign else last.invoked_ns
    return Belief(token=campaign.result[0], campaign=campaign, last=last, from_ns=granted_ns, to_ns=last_ns)


def _tells(operation: Operation) -> bool:
    return operation.type is Outcome.FAIL and operation.error in TOLD


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
        session = session_of(operation)
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
        token, session = observation.result, session_of(observation)
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
