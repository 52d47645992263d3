"""The terms of an election in a history: who was granted which term, when it was over, and what was done in it.

The token of a term is the position of its grant in the store's order of changes. So the term's reign in that order
begins at its token, and ends before the next token that was granted or at its leader's resignation. An act with a known
position is in its own reign or not: no clock is needed.

Where grants have no position, tokens only say which term is later. On Kafka a term is a producer's epoch, which is kept
apart from what is done in the term. There the order of the trail shows reigns, and so does time: an act that was sent
after a later grant had been acknowledged was sent after its term.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import row
from fencepost.checkers.derived.positions import final_reads, write_position
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome

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
    of_term: dict[int, list[Operation]] = {}
    for operation in terms.in_terms:
        of_term.setdefault(token_of(operation), []).append(operation)
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
