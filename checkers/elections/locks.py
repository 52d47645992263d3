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
from fencepost.checkers.rules import NothingOlder, Rule, Statement, sorted_out, verdict
from fencepost.checkers.storage.sets import SetHistory, chances_by_reads, counted_in
from fencepost.checkers.violations.finding import Doubt, Finding, seconds
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict

FENCED: Final = "fenced-lock"
UNFENCED: Final = "lock-mutual-exclusion"
LOST: Final = Rule(
    guarantee=FENCED,
    anomaly="lost-update",
    tested="acknowledged critical sections whose element a strong read after healing had to show",
    lacks="no strong read after healing had to show an acknowledged critical section",
)
TOKEN_ORDER: Final = NothingOlder(
    guarantee=FENCED,
    anomaly="token-order",
    tested="grants that were asked for after another one",
    strict=True,
    steps=lambda greatest, section: (
        f"{_holder(greatest.by)} with token {greatest.low}, granted by {seconds(greatest.known_ns)}.",
        f"{_holder(section.by)} asked for the lock later, at {seconds(section.asked_ns)}, and got token {section.low}: "
        "tokens must grow with every grant.",
    ),
)
#: A write that is sent after one with a greater token was acknowledged; one that is refused was a chance, too.
STALE_TOKEN: Final = NothingOlder(
    guarantee=FENCED,
    anomaly="stale-token-accepted",
    tested="writes of holders after whom the lock was granted again",
    lacks="no holder wrote after it had lost the lock",
    steps=lambda greatest, section: (
        f"{_holder(greatest.by)}; its write with token {greatest.low} was acknowledged by "
        f"{seconds(greatest.known_ns)}.",
        f"{_holder(section.by)}; its write with the smaller token {section.low} was sent after that, not before "
        f"{seconds(section.asked_ns)}, and was acknowledged too: fencing must refuse it.",
    ),
)
TWO_HOLDERS: Final = Rule(guarantee=UNFENCED, anomaly="two-holders", tested="grants after another one")


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
    exposed = rows(section for one in sets for section in one.exposed())
    lost = [] if weak else [finding for one in sets for finding in one.findings(lost=LOST.anomaly)]
    every = [(key, section, section.token) for key, own in sections.items() for section in own]
    order = TOKEN_ORDER.judge(
        Statement(one.op, key, token, token, one.op.invoked_ns, one.acquired_ns) for key, one, token in every
    )
    holders = [finding for own in sections.values() for finding in two_holders(own)]
    if fenced:
        stale = STALE_TOKEN.judge(
            Statement(one.op, key, token, token, one.last_held_ns, one.op.completed_ns or 0)
            for key, one, token in every
        )
        refused = sum(o.f == "critical" and o.error == "fenced" for o in history.operations)
        third = stale._replace(chances=refused + len(stale.findings))
    else:
        third = TWO_HOLDERS.tally(holders, sum(len(own[1:]) for own in sections.values()))
    return [
        verdict(
            facts,
            *sorted_out(
                lost,
                {
                    LOST.here(guarantee=third.rule.name, lacks=weak): () if weak else exposed,
                    **chances_by_reads(sets, weak),
                },
            ),
            order,
            third,
            doubt=_doubt(weak, sets),
            exposed=exposed,
            figures={**numbers_of(_counted(sets, sections, holders)), "fencing": "on" if fenced else "off"},
        )
    ]


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
                f"{_holder(longest.op)} from {seconds(longest.acquired_ns)} to {seconds(longest.last_held_ns)}.",
                f"{_holder(section.op)} from {seconds(section.acquired_ns)} to {seconds(section.last_held_ns)}.",
                f"For {overlap_ns / 1e6:.3f} ms both believed that they held the lock.",
            )
            findings.append(TWO_HOLDERS.finding(longest.op, section.op, steps=steps))
        if longest is None or section.last_held_ns > longest.last_held_ns:
            longest = section
    return findings


def _holder(op: Operation) -> str:
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
