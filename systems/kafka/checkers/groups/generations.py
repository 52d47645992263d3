"""The generations of groups: do earlier ones commit, do they go back, and has a share two members?"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.findings.finding import Finding, Findings, duration, rule
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.groups.members import CHECKER, ConsumerGroup, completed_ns

FENCE: Final = "group-generations-fence"
OWNER: Final = "group-one-owner"
ACCEPTED: Final = "stale-generation-committed"
WENT_BACK: Final = "generation-went-back"
TWO_OWNERS: Final = "two-owners-of-a-share"
_NEVER_LATE: Final = "no member committed after a later generation had begun"
#: What a coordinator says to a member that may not commit.
_REFUSED: Final = frozenset({"illegal-generation", "unknown-member-id", "rebalance-in-progress"})
_ALONE: Final = "no generation was joined after another, or by a second member"


def judge_fence(groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge the commits that were sent after a later generation had begun."""
    findings: list[Finding] = []
    late: list[Operation] = []
    for group in groups:
        for commit in group.commits:
            if commit.type is Outcome.FAIL and commit.error not in _REFUSED:
                continue
            generation, begun = group.generation(commit), group.begun.before(commit.invoked_ns)
            if generation is None or begun is None or generation >= begun[0]:
                continue
            late.append(commit)
            if commit.type is Outcome.OK:
                findings.append(_accepted(group, generation, begun[0], begun[1], commit))
    refused = [commit for commit in late if commit.type is Outcome.FAIL]
    return Findings(
        checker=CHECKER,
        guarantee=FENCE,
        findings=findings,
        broken=f"{len(findings)} commits of earlier generations were accepted",
        exposed=rows(late),
        exposure_of="commits by members of a generation that were sent after a later one had begun",
        untested=_NEVER_LATE,
        kept=f"of {len(late)} commits that were sent after a later generation had begun none was accepted,"
        f" {len(refused)} were refused",
        rules=(rule(ACCEPTED, len(late), _NEVER_LATE),),
        counted={"late_commits": rows(late), "late_commits_refused": rows(refused)},
    ).verdict(facts)


def _accepted(group: ConsumerGroup, generation: int, later: int, join: Operation, commit: Operation) -> Finding:
    steps = (
        f"{join.node} told a member its share of generation {later} of group {group.key}.",
        f"{duration(commit.invoked_ns - completed_ns(join))} later a member of generation {generation} committed"
        f" {commit.value} by way of {commit.node}, and it was acknowledged.",
    )
    return Finding(anomaly=ACCEPTED, operations=(join, commit), steps=steps)


def judge_owners(groups: Sequence[ConsumerGroup], facts: Facts) -> Verdict:
    """Judge that generations grow, and that a share of one has one member."""
    findings: list[Finding] = []
    exposed: list[Operation] = []
    generations = 0
    for group in groups:
        owners: dict[tuple[int, int], Operation] = {}
        first: dict[int, Operation] = {}
        for join in group.joins:
            generation, share = join.result
            before = group.begun.before(join.invoked_ns)
            if before is not None and before[0] > generation:
                findings.append(_went_back(group, before[0], before[1], join))
            owner = owners.setdefault((generation, share), join)
            if owner.process != join.process:
                findings.append(_two_owners(group, owner, join))
            if before is not None or first.setdefault(generation, join).process != join.process:
                exposed.append(join)
        generations += len({generation for generation, _ in owners})
    return Findings(
        checker=CHECKER,
        guarantee=OWNER,
        findings=findings,
        exposed=rows(exposed),
        exposure_of="joins after another generation, or of one that another member joined too",
        untested=_ALONE,
        kept=f"{generations} generations of {len(groups)} groups grew, and had one member for each share",
        rules=(rule(WENT_BACK, len(exposed), _ALONE), rule(TWO_OWNERS, len(exposed), _ALONE)),
        counted={"joins": rows(join for group in groups for join in group.joins)},
    ).verdict(facts)


def _went_back(group: ConsumerGroup, later: int, before: Operation, join: Operation) -> Finding:
    steps = (
        f"{before.node} told a member its share of generation {later} of group {group.key}.",
        f"{duration(join.invoked_ns - completed_ns(before))} later a member joined by way of {join.node}, and was told"
        f" generation {join.result[0]}.",
    )
    return Finding(anomaly=WENT_BACK, operations=(before, join), steps=steps)


def _two_owners(group: ConsumerGroup, one: Operation, other: Operation) -> Finding:
    generation, share = other.result
    steps = tuple(
        f"{join.node} gave process {join.process} share {share} of generation {generation} of group {group.key}."
        for join in (one, other)
    )
    return Finding(anomaly=TWO_OWNERS, operations=(one, other), steps=steps)
