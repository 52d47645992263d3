"""Leaders that ask who leads right after they were elected: a current read must show them, or somebody later.

KIP-30 has this as `getLeader` after a `nominate` that returned true. An answer that names an earlier leader is wrong.
So is one that names nobody, if the term still held: a later renewal or guarded act of it was acknowledged.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.elections.terms import Terms, token_of
from fencepost.checkers.rules import Rule
from fencepost.checkers.violations.finding import Finding, seconds
from fencepost.harness.history import Operation, Outcome

UNSURE: Final = Rule(
    guarantee="linearizable",
    anomaly="leader-unsure",
    tested="questions of leaders who leads, by a current read right after their election",
)


def unsure(terms: Terms, mode: str, *, fenced: bool) -> list[Finding]:
    """Find confirmations that show an earlier leader, or nobody; none for reads that may lag."""
    return [] if mode == "plain" else list(_unsure(terms, fenced=fenced))


def judged(terms: Terms, mode: str) -> list[Operation]:
    """List the answered confirmations by a read that promises to be current."""
    return [] if mode == "plain" else terms.confirmations


def _unsure(terms: Terms, *, fenced: bool) -> Iterator[Finding]:
    proofs = ("renew", "act") if fenced else ("renew",)
    held = [o for o in terms.in_terms if o.type is Outcome.OK and o.f in proofs]
    for confirmation in terms.confirmations:
        token, seen = token_of(confirmation), next(iter(confirmation.result), None)
        grant = terms.granted.get(token)
        if grant is None or (seen is not None and seen >= token):
            continue
        proof = None
        if seen is None:
            end_ns = confirmation.completed_ns or 0
            proof = next((o for o in held if token_of(o) == token and o.invoked_ns > end_ns), None)
            if proof is None:
                continue
        shown = "nobody" if seen is None else f"the leader of term {seen}"
        steps = [
            f"Process {grant.process} on {grant.node} was granted term {token} by {seconds(grant.completed_ns or 0)}.",
            f"It asked {confirmation.node} at {seconds(confirmation.invoked_ns)} who leads, and was shown {shown}.",
        ]
        if proof is not None:
            steps.append(f"The term still held: its {proof.f} of {seconds(proof.invoked_ns)} was acknowledged.")
        operations = (grant, confirmation, *(() if proof is None else (proof,)))
        yield UNSURE.finding(*operations, steps=steps)
