"""What a rule about metadata found, before it becomes part of a verdict."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from fencepost.checkers.facts.evidence import Rows, violations
from fencepost.checkers.facts.positions import events_of
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Proof, Validity, Verdict, Witness

_WITNESSES_MAX = 5


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One violation: what it is called, the operations that show it, and why in words."""

    anomaly: str
    operations: tuple[Operation, ...]
    steps: tuple[str, ...]


def verdict_of(
    findings: Sequence[Finding],
    *,
    checker: str,
    guarantee: str,
    broken: str,
    otherwise: tuple[Validity, str],
    exposure: int,
    exposure_of: str,
    figures: dict[str, Any],
    evidence: dict[str, Rows],
    proofs: tuple[Proof, ...] = (),
) -> Verdict:
    """`invalid` with `broken` as the reason when anything was found, else what `otherwise` says.

    A finding is counted by the answer that shows it: the last of its operations.
    """
    shown = violations((finding.anomaly, finding.operations[-1]) for finding in findings)
    validity, reason = (Validity.INVALID, f"{len(findings)} {broken}") if findings else otherwise
    return Verdict(
        checker=checker,
        guarantee=guarantee,
        validity=validity,
        reason=reason,
        exposure=exposure,
        exposure_of=exposure_of,
        anomalies=dict(Counter(finding.anomaly for finding in findings)),
        witnesses=tuple(_witness(finding) for finding in findings[:_WITNESSES_MAX]),
        figures=figures,
        evidence={**evidence, **shown},
        proofs=proofs,
    )


def _witness(finding: Finding) -> Witness:
    shown = finding.operations
    return Witness(
        anomaly=finding.anomaly,
        events=events_of(*shown),
        steps=finding.steps,
        from_ns=min(o.invoked_ns for o in shown),
        to_ns=max(o.invoked_ns if o.completed_ns is None else o.completed_ns for o in shown),
        key=shown[-1].key,
        nodes=tuple(dict.fromkeys(o.node for o in shown)),
    )
