"""Tables of the claims, epochs and reigns of every subject, as `checkers.facts.reigns` defines them."""

from collections.abc import Mapping
from typing import Any

from fencepost.checkers.facts.reigns import Reign, Reigns
from fencepost.harness.history import Claim
from fencepost.harness.verdict.fact_tables import CLAIMS, EPOCHS, REIGNS

#: Who led what, by subject.
BySubject = Mapping[str, Reigns]


def claims_table(reigns: BySubject) -> Any:
    """Lay out every answer "I lead" (-> CLAIMS)."""
    own = [(subject, s) for subject, one in reigns.items() for s in one.samples if s.claims is Claim.YES]
    plain = {c.name: [getattr(s, c.name) for _, s in own] for c in CLAIMS.columns if c.name != "subject"}
    return CLAIMS.of_columns({"subject": [subject for subject, _ in own], **plain})


def epochs_table(reigns: BySubject) -> Any:
    """Lay out when each epoch had certainly begun (-> EPOCHS)."""
    own = [(subject, begin) for subject, one in reigns.items() for begin in one.begins]
    return EPOCHS.of_rows(
        [{"subject": s, "epoch": b.epoch, "begun_ns": b.at_ns, "event": b.event, "how": b.how} for s, b in own]
    )


def reigns_table(reigns: BySubject) -> Any:
    """Lay out who led each epoch, and from when to when (-> REIGNS)."""
    return REIGNS.of_rows([_reign(subject, reign) for subject, one in reigns.items() for reign in one.reigns])


def _reign(subject: str, reign: Reign) -> dict[str, Any]:
    begin = reign.superseded
    return {
        "subject": subject,
        "node": reign.node,
        "incarnation": reign.incarnation,
        "epoch": reign.epoch,
        "first_ns": reign.first_ns,
        "last_ns": reign.last_ns,
        "over_ns": reign.over_ns,
        "samples": len(reign.samples),
        "superseded_by": None if begin is None else begin.epoch,
        "superseded_ns": None if begin is None else begin.at_ns,
        "claimed_samples": len(reign.claimed),
    }
