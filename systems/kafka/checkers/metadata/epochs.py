"""Do the epochs that a node leads in only grow, within one run of its server?

From the nodes' own claims with exact epochs, each subject apart; an answer counts as later only when it was asked for
after the earlier one had come. What a broker forwards is another node's word.
"""

from typing import Final

from fencepost.checkers.derived.reigns import exact_claims
from fencepost.checkers.rules import NothingOlder, says, verdict
from fencepost.checkers.violations.finding import duration
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Traced, tally

WENT_BACK: Final = NothingOlder(
    guarantee="epochs-never-go-back",
    anomaly="epoch-went-back",
    tested="claims to lead by a server that had claimed before",
    lacks="no server claimed twice to lead in an epoch that is exactly known",
    steps=lambda before, after: (
        f"{before.by.node} said that it led {before.by.subject} epoch {before.low}.",
        f"Asked again {duration(after.asked_ns - before.known_ns)} later, the same server said that it led "
        f"epoch {after.low}.",
    ),
)


def judge(history: History, facts: Facts) -> Verdict:
    """Judge whether the epochs in one server's claims only grow.

    Returns:
        `invalid` if a server claimed a lower epoch than it had claimed before; `unknown` if no server claimed twice.

    Source: a server never returns to a lower term (Ongaro, 2014, chapter 3: `currentTerm` increases monotonically);
    likewise the epochs that a follower has promised in Zab (Junqueira, Reed, Serafini, 2011).

    Cost: O(n log n) for n claims.
    """
    claims = exact_claims(history)
    led: dict[int, int] = {}
    for claim in (claim for own in claims.values() for claim in own):
        led.setdefault(claim.named or 0, claim.index)
    again = tuple(claim.index for own in claims.values() for claim in own[1:])
    back = WENT_BACK.judge(says(claim, claim.named or 0, of=server) for server, own in claims.items() for claim in own)
    return verdict(
        facts,
        WENT_BACK.tally(back.findings, again),
        kept=f"{len(again) + len(claims)} claims, of {len(led)} epochs",
        figures={
            "epochs_led": tally(led.values()),
            "epoch_max": Traced(max(led), (led[max(led)],)) if led else None,
        },
    )
