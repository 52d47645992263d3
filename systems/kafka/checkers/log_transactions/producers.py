"""Producers of one name: do earlier ones commit, and does what they leave behind come to an end?"""

from typing import Final

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.positions import option_ns
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, by, duration, few_of_each, rule
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.groups.members import completed_ns
from fencepost.systems.kafka.checkers.log_transactions.view import CHECKER, PartitionLog, TransactionsView

FENCED: Final = "transactional-producers-fenced"
HANGING: Final = "no-hanging-transactions"
COMMITTED: Final = "fenced-commit"
TOKEN: Final = "reused-producer-token"
HANGS: Final = "hanging-transaction"
_NEVER_LATE: Final = "no producer asked for a commit after a later one of its name had begun"
_ALONE: Final = "no producer began after another one of its name"
_ALL_ENDED: Final = "every producer saw the end of each of its transactions"


def judge_fenced(view: TransactionsView, facts: Facts) -> Verdict:
    """Judge the commits that were asked for after a later producer had begun, and that tokens only grow."""
    findings: list[Finding] = []
    late: list[Operation] = []
    for transaction in view.transactions.values():
        operation, begun = transaction.operation, view.began(transaction)
        if not transaction.commits or begun is None:
            continue
        # The commit is asked for after the wait at the earliest.
        asked_ns = operation.invoked_ns + transaction.wait_ns
        later = view.tokens[operation.key or ""].before(asked_ns)
        if later is None or later[0] <= begun.result[0]:
            continue
        late.append(operation)
        if operation.type is Outcome.OK:
            steps = (
                f"A producer of {operation.key} began {by(begun)}, with token {begun.result[0]}.",
                f"A later one began {by(later[1])}, with token {later[0]}.",
                f"{duration(asked_ns - completed_ns(later[1]))} after that, or later, the earlier one asked for the"
                f" commit of transaction {transaction.number}, and it was acknowledged.",
            )
            findings.append(Finding(anomaly=COMMITTED, operations=(begun, later[1], operation), steps=steps))
    again: list[Operation] = []
    for begin in view.begins:
        before = view.tokens[begin.key or ""].before(begin.invoked_ns)
        if before is None:
            continue
        again.append(begin)
        if before[0] >= begin.result[0]:
            again_steps = (
                f"A producer of {begin.key} began {by(before[1])}, with token {before[0]}.",
                f"{duration(begin.invoked_ns - completed_ns(before[1]))} later another one began {by(begin)}, with"
                f" token {begin.result[0]}.",
            )
            findings.append(Finding(anomaly=TOKEN, operations=(before[1], begin), steps=again_steps))
    refused = [operation for operation in late if operation.error == "fenced"]
    return Findings(
        checker=CHECKER,
        guarantee=FENCED,
        findings=findings,
        exposed=rows(late),
        exposure_of="commits that a producer was to ask for after a later one of its name had begun",
        untested=_NEVER_LATE,
        kept=f"of {len(late)} transactions whose commit came after a later producer had begun none was acknowledged,"
        f" {len(refused)} were refused as fenced",
        shown=few_of_each(findings, 2),
        rules=(rule(COMMITTED, len(late), _NEVER_LATE), rule(TOKEN, len(again), _ALONE)),
        counted={"late_commits_refused": rows(refused)},
    ).verdict(facts)


def judge_hanging(view: TransactionsView, facts: Facts) -> Verdict:
    """Judge that committed readers reach the end of every partition, some time after the last transaction."""
    after_ns = option_ns(facts, "hangs_after", "15s")
    open_ones = [transaction.operation for transaction in view.transactions.values() if transaction.left_open]
    unstable = [partition for partition in view.partitions.values() if partition.unstable]
    hanging = [partition for partition in unstable if _waited_ns(view, partition) > after_ns]
    pending = [partition.key for partition in unstable if partition not in hanging]
    unasked = [key for key in view.unread if key not in view.partitions or view.partitions[key].last_read is None]
    doubt = None
    if pending or unasked:
        doubt = Doubt(Cause.UNDECIDED, f"the end of {', '.join(pending or unasked)} was not read for long enough")
    return Findings(
        checker=CHECKER,
        guarantee=HANGING,
        findings=[_hangs(view, partition) for partition in hanging],
        doubt=doubt,
        exposed=rows(open_ones),
        exposure_of="transactions that their producer left without knowing their end",
        untested=_ALL_ENDED,
        kept=f"{len(open_ones)} transactions that were left open had ended: committed readers reached the end of"
        f" {len(view.partitions)} partitions",
        rules=(rule(HANGS, len(open_ones) + len(hanging), _ALL_ENDED),),
    ).verdict(facts)


def _waited_ns(view: TransactionsView, partition: PartitionLog) -> int:
    """How long after healing the last committed read was answered."""
    assert partition.last_read is not None and view.final_ns is not None
    return completed_ns(partition.last_read) - view.final_ns


def _hangs(view: TransactionsView, partition: PartitionLog) -> Finding:
    read = partition.last_read
    assert read is not None
    _, stable, high, _ = read.result
    steps = [
        f"{duration(_waited_ns(view, partition))} after the last transaction could begin, a committed read of"
        f" {partition.key} {by(read)} ended at offset {stable}; the partition ends at {high}."
    ]
    first = min(
        (sight for own in partition.logged.values() for sight in own.values() if sight.offset >= stable),
        key=lambda sight: sight.offset,
        default=None,
    )
    transaction = None if first is None else view.transactions.get(first.number)
    operations: tuple[Operation, ...] = (read,)
    if first is not None:
        steps.append(f"At offset {first.offset} stands a record of transaction {first.number}.")
    if transaction is not None:
        operation = transaction.operation
        ended = f"{operation.type} ({operation.error})" if operation.error else operation.type
        steps.append(f"That transaction of {operation.key} {by(operation)} ended {ended}.")
        operations = (operation, read)
    return Finding(anomaly=HANGS, operations=operations, steps=tuple(steps))
