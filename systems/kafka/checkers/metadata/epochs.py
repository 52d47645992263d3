"""Do the epochs that a node leads in only grow, within one run of its server?

From the nodes' own claims with exact epochs, each subject apart; an answer counts as later only when it was asked for
after the earlier one had come. What a broker forwards is another node's word.
"""

from typing import Final

from fencepost.checkers.facts.reigns import LeaderSample, exact_claims
from fencepost.checkers.findings.finding import Finding, Findings, duration, rule
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict

GUARANTEE: Final = "epochs-never-go-back"
EXPOSURE_OF: Final = "claims to lead by a server that had claimed before"
ANOMALY: Final = "epoch-went-back"


def judge(history: History, facts: Facts, *, checker: str) -> Verdict:
    """Judge whether the epochs in one server's claims only grow.

    Returns:
        `invalid` if a server claimed a lower epoch than it had claimed before; `unknown` if no server claimed twice.

    Source: a server never returns to a lower term (Ongaro, 2014, chapter 3: `currentTerm` increases monotonically);
    likewise the epochs that a follower has promised in Zab (Junqueira, Reed, Serafini, 2011).

    Cost: O(n log n) for n claims.
    """
    claims = exact_claims(history)
    findings: list[Finding] = []
    again: list[int] = []
    led: dict[int, int] = {}
    for own in claims.values():
        for claim in own:
            led.setdefault(claim.named or 0, claim.index)
        again += [claim.index for claim in own[1:]]
        findings += [_finding(before, after) for before, after in _steps_back(own)]
    return Findings(
        checker=checker,
        guarantee=GUARANTEE,
        findings=findings,
        broken=f"{len(findings)} claims are of a lower epoch than the server's claim before",
        exposed=tuple(again),
        exposure_of=EXPOSURE_OF,
        untested="no server claimed twice to lead in an epoch that is exactly known",
        rules=(rule(ANOMALY, len(again), "no server claimed twice to lead in an epoch that is exactly known"),),
        kept=f"{len(again) + len(claims)} claims, of {len(led)} epochs",
        counted={"epochs_led": tuple(led.values())},
        figures={"epoch_max": max(led, default=None)},
        evidence={"epoch_max": (led[max(led)],) if led else ()},
    ).verdict(facts)


def _steps_back(claims: list[LeaderSample]) -> list[tuple[LeaderSample, LeaderSample]]:
    """Return the pairs (earlier, later) of one server's claims whose epoch fell; `claims` are ordered by answer."""
    steps = []
    highest: LeaderSample | None = None
    at = 0
    for claim in sorted(claims, key=lambda c: c.asked_ns):
        while claims[at].answered_ns < claim.asked_ns:
            if highest is None or (claims[at].named or 0) > (highest.named or 0):
                highest = claims[at]
            at += 1
        if highest is not None and (claim.named or 0) < (highest.named or 0):
            steps.append((highest, claim))
    return steps


def _finding(before: LeaderSample, after: LeaderSample) -> Finding:
    return Finding(
        anomaly=ANOMALY,
        events=(before.index, after.index),
        counted_by=after.index,
        steps=(
            f"{before.node} said that it led {before.subject} epoch {before.named}.",
            f"Asked again {duration(after.asked_ns - before.answered_ns)} later, the same server said that it led "
            f"epoch {after.named}.",
        ),
        from_ns=before.asked_ns,
        to_ns=after.answered_ns,
        nodes=(before.node,),
    )
