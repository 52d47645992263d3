"""Consumer groups: acknowledged offsets stay, earlier generations commit nothing, and shares have one owner.

Four verdicts on the members' operations (`systems.kafka.workloads.consumer_groups`), each group by itself:
  - "group-commits-durable": the offset that is read last is no older than an acknowledged one, and was not refused;
  - "group-generations-fence": no commit of a generation is accepted that was sent after a later one was shared out;
  - "group-one-owner": generations grow, and no share of one has two members;
  - "group-offsets-fresh": no read shows an offset older than one that was acknowledged before the read was sent.

A generation has begun when somebody was told a share of it: by then it is in the coordinators' log. One commit is older
than another when it was acknowledged before the other was sent; a commit of unknown outcome is older than none, since
it may take effect at any time.

Source: Kafka's documentation, "Consumer offset tracking"; Kafka's protocol guide, "Group Membership API"; KIP-62.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import Newest, number_of, rows
from fencepost.checkers.derived.positions import completed_ns, in_final
from fencepost.checkers.derived.servers import Risk
from fencepost.checkers.rules import GivenOnce, NothingOlder, Rule, Statement, says, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.groups.members import ConsumerGroup, groups_of

#: What a coordinator says to a member that may not commit.
_REFUSED: Final = frozenset({"illegal-generation", "unknown-member-id", "rebalance-in-progress"})


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all groups of one history.

    Returns:
        The four verdicts above, in that order.

    Cost: O(n log n) for n operations.
    """
    groups = groups_of(history)
    return [_durable(history, groups, facts), _fence(groups, facts), _owners(groups, facts), _fresh(groups, facts)]


def _overtaken(newer: Statement, read: Statement) -> Iterator[str]:
    assert isinstance(newer.by, Operation)
    acknowledged = f"{newer.by.node} acknowledged the commit of {newer.by.value} in group {newer.by.key}."
    for shown in read.because:
        yield f"{shown.node} acknowledged the commit of {shown.value} in group {newer.by.key}."
        before = duration(newer.by.invoked_ns - completed_ns(shown))
        acknowledged = f"{before} later {newer.by.value} was committed, and acknowledged as well."
    yield acknowledged
    what = f"{read.because[0].value} again" if read.because else "no offset"
    yield f"{duration(read.asked_ns - newer.known_ns)} after that a read by way of {read.by.node} gave {what}."


def _committed(groups: Sequence[ConsumerGroup]) -> Iterator[Statement]:
    """What is known of each group's offset: the acknowledged commit that was sent last."""
    for commit in (commit for group in groups for commit in group.acknowledged):
        yield Statement(commit, commit.key, commit.invoked_ns, None, commit.invoked_ns, completed_ns(commit))


def _shown(groups: Sequence[ConsumerGroup], reads: Sequence[Operation]) -> Iterator[Statement]:
    """What reads show of each group's offset: no commit that was sent after the shown one had been acknowledged."""
    commits = {group.key: group.commit_of for group in groups}
    for read in reads:
        shown = commits[read.key or ""].get(read.result)
        because = (shown,) if shown is not None and shown.type is Outcome.OK else ()
        at_ns = -1 if read.result is None else completed_ns(because[0]) if because else None
        yield Statement(read, read.key, None, at_ns, read.invoked_ns, completed_ns(read), because)


LOST: Final = NothingOlder(
    guarantee="group-commits-durable",
    anomaly="lost-offset",
    tested="acknowledged commits that something disturbed, of groups that were read at the end",
    lacks="no fault touched a broker after a commit was sent",
    steps=_overtaken,
)
PHANTOM: Final = Rule(guarantee="group-commits-durable", anomaly="phantom-offset", tested="reads of an offset")
STALE: Final = NothingOlder(
    guarantee="group-offsets-fresh",
    anomaly="stale-offset",
    tested="reads of an offset after a commit had been acknowledged",
    steps=_overtaken,
)
ACCEPTED: Final = Rule(
    guarantee="group-generations-fence",
    anomaly="stale-generation-committed",
    tested="commits by members of a generation that were sent after a later one had begun",
)
WENT_BACK: Final = NothingOlder(
    guarantee="group-one-owner",
    anomaly="generation-went-back",
    tested="joins after another one of the group",
    steps=lambda before, join: (
        f"{before.by.node} told a member its share of generation {before.low} of group {join.of}.",
        f"{duration(join.asked_ns - before.known_ns)} later a member joined by way of {join.by.node}, and was told"
        f" generation {join.low}.",
    ),
)
TWO_OWNERS: Final = GivenOnce(
    guarantee="group-one-owner",
    anomaly="two-owners-of-a-share",
    tested="joins after another one of the group",
    steps=lambda *joins: [
        f"{join.by.node} gave process {join.low} share {join.of[2]} of generation {join.of[1]} of group {join.of[0]}."
        for join in joins
    ],
)


def _phantoms(group: ConsumerGroup) -> list[Finding]:
    """One finding for each number that reads show although its commit was refused, or that nobody committed."""
    by_number: dict[int, Finding] = {}
    for read in group.reads:
        commit = group.commit_of.get(read.result)
        if read.result is None or read.result in by_number or (commit is not None and commit.type is not Outcome.FAIL):
            continue
        why = "that nobody had committed" if commit is None else f"whose commit was refused ({commit.error})"
        step = f"A read of group {group.key} by way of {read.node} gave {read.result}, {why}."
        by_number[read.result] = PHANTOM.finding(*(() if commit is None else (commit,)), read, steps=(step,))
    return list(by_number.values())


def _durable(history: History, groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge what is read last of each group, and that nothing is read that was refused."""
    risk = Risk(history, facts, {commit.node for group in groups for commit in group.commits})
    last = {group.key: read for group in groups for read in group.reads if in_final(history, read)}
    unread = [group.key for group in groups if group.key not in last]
    at_risk = [c for group in groups if group.key in last for c in group.acknowledged if risk.runs(c)]
    # The newest commit stands for what is lost, not the read that lacks it.
    lost = LOST.judge(_shown(groups, [*last.values()]), _committed(groups)).findings
    lost = [msgspec.structs.replace(finding, about=-2) for finding in lost]
    return verdict(
        facts,
        LOST.tally(lost, rows(at_risk)),
        PHANTOM.tally([f for group in groups for f in _phantoms(group)], rows(r for g in groups for r in g.reads)),
        doubt=Doubt(Cause.UNDECIDED, f"nothing was read of {', '.join(unread)} at the end") if unread else None,
        kept=f"{len(groups)} groups kept the newest of {len(at_risk)} commits that something disturbed",
        figures={
            f"commits_{outcome}": number_of(c for group in groups for c in group.commits if c.type is outcome)
            for outcome in (Outcome.OK, Outcome.FAIL, Outcome.INFO)
        },
    )


def _fence(groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge the commits that were sent after a later generation had begun."""
    findings: list[Finding] = []
    late: list[Operation] = []
    for group in groups:
        begun = Newest((join.result[0], completed_ns(join), join) for join in group.joins)
        for commit in group.commits:
            if commit.type is Outcome.FAIL and commit.error not in _REFUSED:
                continue
            generation, join = group.generation(commit), begun.before(commit.invoked_ns)
            if generation is None or join is None or generation >= join.result[0]:
                continue
            late.append(commit)
            if commit.type is Outcome.OK:
                steps = (
                    f"{join.node} told a member its share of generation {join.result[0]} of group {group.key}.",
                    f"{duration(commit.invoked_ns - completed_ns(join))} later a member of generation {generation}"
                    f" committed {commit.value} by way of {commit.node}, and it was acknowledged.",
                )
                findings.append(ACCEPTED.finding(join, commit, steps=steps))
    refused = [commit for commit in late if commit.type is Outcome.FAIL]
    return verdict(
        facts,
        ACCEPTED.tally(findings, rows(late)),
        kept=f"of {len(late)} commits that were sent after a later generation had begun none was accepted,"
        f" {len(refused)} were refused",
        figures={"late_commits": number_of(late), "late_commits_refused": number_of(refused)},
    )


def _owners(groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge that generations grow, and that a share of one has one member."""
    joins = [join for group in groups for join in group.joins]
    owners = [says(join, join.process, of=(join.key, *join.result)) for join in joins]
    generations = len({(join.key, join.result[0]) for join in joins})
    return verdict(
        facts,
        WENT_BACK.judge(says(join, join.result[0]) for join in joins),
        TWO_OWNERS.judge(owners),
        kept=f"{generations} generations of {len(groups)} groups grew, and had one member for each share",
        figures={"joins": number_of(joins)},
    )


def _fresh(groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge every read of an offset against the commits that were acknowledged before it was sent."""
    stale = STALE.judge(_shown(groups, [read for group in groups for read in group.reads]), _committed(groups))
    return verdict(facts, stale, figures={"stale_reads": number_of(f.counted for f in stale.findings)})
