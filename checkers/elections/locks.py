"""Judge a lock that guards a read-modify-write of one set: is an update lost, do two clients hold it, do tokens grow?

The operation `critical` adds its value to the set under the lock. Its result is [token, acquired_ns, last_held_ns]:
between these two times, in ns on the history's clock, its client believed that it held the lock.

With fencing the store refuses the write of a stale holder. Two believers then do no harm and are a figure. These must
hold: no acknowledged element is lost; no write with a smaller token is accepted after one with a greater token; and
tokens grow with the order of the grants. Without fencing, two holders are themselves the violation.

Sources: a lock that ends by time is a lease (Gray & Cheriton, "Leases", 1989), so its holder may be superseded without
knowing it; fencing tokens: Kleppmann, "How to do distributed locking" (2016), and the sequencers of Burrows, "The
Chubby lock service" (2006).
"""

from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import weak_reads
from fencepost.checkers.storage.sets import SetHistory, counted_in
from fencepost.checkers.violations.finding import (
    WITNESSES_MAX,
    Doubt,
    Finding,
    Findings,
    one_of_each_first,
    rule,
    seconds,
)
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Rule, Verdict

CHECKER: Final = "lock"
FENCED: Final = "fenced-lock"
UNFENCED: Final = "lock-mutual-exclusion"
EXPOSURE_OF: Final = "acknowledged critical sections whose element a strong read after healing had to show"


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One acknowledged critical section, with the time in which its client believed that it held the lock."""

    op: Operation
    token: int
    acquired_ns: int
    last_held_ns: int


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the locks of one history.

    Args:
        history: operations `critical`, and strong reads of the set after healing.
        facts: the option `fencing` ("on" by default), and the guarantee of reads.

    Returns:
        One verdict: on "fenced-lock" with fencing, on "lock-mutual-exclusion" without. It is `unknown` where no strong
        read after healing shows the set, since lost updates cannot be found then.

    Raises:
        MalformedHistory: the result of a critical section has another form; names the event.

    Cost: O(n log n) for n critical sections.
    """
    fenced = facts.options.get("fencing", "on") in ("on", True)
    keys = sorted({o.key or "" for o in history.operations if o.f == "critical"})
    sections = {key: _sections(history.operations, key) for key in keys}
    sets = [SetHistory(history, key=key, adds="critical") for key in keys]
    weak = weak_reads(facts)
    rules = [_lost_update(sets, weak), _later_grants(sections, "token-order")]
    findings = [] if weak else [finding for one in sets for finding in one.findings(lost="lost-update")]
    holders = [finding for key in keys for finding in two_holders(sections[key])]
    findings += [finding for key in keys for finding in token_order(sections[key])]
    if fenced:
        findings += [finding for key in keys for finding in stale_tokens(sections[key])]
        rules.append(_stale_writes(history, sections))
    else:
        findings += holders
        rules.append(_later_grants(sections, "two-holders"))
    return [
        Findings(
            checker=CHECKER,
            guarantee=FENCED if fenced else UNFENCED,
            findings=findings,
            broken=f"{len(findings)} violations",
            doubt=_doubt(weak, sets),
            exposed=rows(section for one in sets for section in one.exposed()),
            exposure_of=EXPOSURE_OF,
            shown=one_of_each_first(findings)[:WITNESSES_MAX],
            rules=tuple(rules),
            figures={**numbers_of(_counted(sets, sections, holders)), "fencing": "on" if fenced else "off"},
        ).verdict(facts)
    ]


def _lost_update(sets: list[SetHistory], weak: str) -> Rule:
    chances = 0 if weak else sum(len(one.exposed()) for one in sets)
    lacks = weak or "no strong read after healing had to show an acknowledged critical section"
    return rule("lost-update", chances, lacks)


def _later_grants(sections: dict[str, list[Section]], name: str) -> Rule:
    """Make a rule that compares each grant with those before it."""
    return rule(name, sum(len(own[1:]) for own in sections.values()), "the lock was not granted twice")


def _stale_writes(history: History, sections: dict[str, list[Section]]) -> Rule:
    """Make the rule for stale holders' writes: one refused with "fenced" was a chance, one accepted is a violation."""
    refused = sum(o.f == "critical" and o.error == "fenced" for o in history.operations)
    chances = refused + sum(len(stale_tokens(own)) for own in sections.values())
    return rule("stale-token-accepted", chances, "no holder wrote after it had lost the lock")


def _doubt(weak: str, sets: list[SetHistory]) -> Doubt | None:
    if not sets:
        return Doubt(Cause.NO_EXPOSURE, "no critical section in this history")
    if any(not one.final_reads for one in sets):
        return Doubt(Cause.UNDECIDED, "no strong read after healing, so lost updates cannot be found")
    return Doubt(Cause.UNDECIDED, weak) if weak else None


def _sections(operations: list[Operation], key: str) -> list[Section]:
    sections = []
    for op in operations:
        if op.f != "critical" or op.type is not Outcome.OK or (op.key or "") != key:
            continue
        held = op.result
        if not (isinstance(held, (list, tuple)) and len(held) == 3 and all(isinstance(part, int) for part in held)):
            raise MalformedHistory(
                f"event {op.complete_index}: a critical section's result is [token, acquired_ns, last_held_ns], "
                f"not {held!r}"
            )
        sections.append(Section(op=op, token=held[0], acquired_ns=held[1], last_held_ns=held[2]))
    return sections


def two_holders(sections: list[Section]) -> list[Finding]:
    """Pair each section that began while an earlier holder believed that it held with the one that held longest."""
    findings = []
    longest: Section | None = None
    for section in sorted(sections, key=lambda s: (s.acquired_ns, s.op.invoke_index)):
        if longest is not None and section.acquired_ns < longest.last_held_ns:
            overlap_ns = min(section.last_held_ns, longest.last_held_ns) - section.acquired_ns
            steps = (
                f"{_holder(longest)} from {seconds(longest.acquired_ns)} to {seconds(longest.last_held_ns)}.",
                f"{_holder(section)} from {seconds(section.acquired_ns)} to {seconds(section.last_held_ns)}.",
                f"For {overlap_ns / 1e6:.3f} ms both believed that they held the lock.",
            )
            findings.append(Finding(anomaly="two-holders", operations=(longest.op, section.op), steps=steps))
        if longest is None or section.last_held_ns > longest.last_held_ns:
            longest = section
    return findings


def token_order(sections: list[Section]) -> list[Finding]:
    """Find sections that were asked for after another one was granted, and whose token is not greater."""
    findings = []
    granted = sorted(sections, key=lambda s: s.acquired_ns)
    greatest: Section | None = None
    at = 0
    for section in sorted(sections, key=lambda s: s.op.invoked_ns):
        while at < len(granted) and granted[at].acquired_ns < section.op.invoked_ns:
            if greatest is None or granted[at].token > greatest.token:
                greatest = granted[at]
            at += 1
        if greatest is not None and section.token <= greatest.token:
            steps = (
                f"{_holder(greatest)} with token {greatest.token}, granted by {seconds(greatest.acquired_ns)}.",
                f"{_holder(section)} asked for the lock later, at {seconds(section.op.invoked_ns)}, and got token "
                f"{section.token}: tokens must grow with every grant.",
            )
            findings.append(Finding(anomaly="token-order", operations=(greatest.op, section.op), steps=steps))
    return findings


def stale_tokens(sections: list[Section]) -> list[Finding]:
    """Find accepted writes that were sent after a write with a greater token had been acknowledged."""
    findings = []
    done = sorted(sections, key=lambda s: s.op.completed_ns or 0)
    greatest: Section | None = None
    at = 0
    for section in sorted(sections, key=lambda s: s.last_held_ns):
        while at < len(done) and (done[at].op.completed_ns or 0) < section.last_held_ns:
            if greatest is None or done[at].token > greatest.token:
                greatest = done[at]
            at += 1
        if greatest is not None and section.token < greatest.token:
            steps = (
                f"{_holder(greatest)}; its write with token {greatest.token} was acknowledged by "
                f"{seconds(greatest.op.completed_ns or 0)}.",
                f"{_holder(section)}; its write with the smaller token {section.token} was sent after that, not before "
                f"{seconds(section.last_held_ns)}, and was acknowledged too: fencing must refuse it.",
            )
            findings.append(Finding(anomaly="stale-token-accepted", operations=(greatest.op, section.op), steps=steps))
    return findings


def _holder(section: Section) -> str:
    op = section.op
    return f"process {op.process} on {op.node} held it for element {op.value!r} (event {op.invoke_index})"


def _counted(
    sets: list[SetHistory], sections: dict[str, list[Section]], holders: list[Finding]
) -> dict[str, list[Operation]]:
    """Map the names of figures to what they count; the first section with a token stands for the token."""
    counted = counted_in(sets)
    if not counted:
        return {}
    first_of_token: dict[int, Operation] = {}
    for section in (one for of_key in sections.values() for one in of_key):
        first_of_token.setdefault(section.token, section.op)
    return {
        "critical_ok": counted["adds_ok"],
        "critical_fail": counted["adds_fail"],
        "critical_info": counted["adds_info"],
        "recovered": counted["recovered"],
        "final_reads": counted["final_reads"],
        "two_holders": [finding.counted for finding in holders],
        "tokens": list(first_of_token.values()),
    }
