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

from collections.abc import Sequence

from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.groups.generations import judge_fence, judge_owners
from fencepost.systems.kafka.checkers.groups.members import ConsumerGroup, groups_of
from fencepost.systems.kafka.checkers.groups.offsets import judge_durable, judge_fresh


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge all groups of one history.

    Returns:
        The four verdicts above, in that order.

    Cost: O(n log n) for n operations.
    """
    groups: Sequence[ConsumerGroup] = groups_of(history)
    return [
        judge_durable(history, groups, facts),
        judge_fence(groups, facts),
        judge_owners(groups, facts),
        judge_fresh(history, groups, facts),
    ]
