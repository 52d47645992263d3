"""Producers of one name: do earlier ones commit, and does what they leave behind come to an end?"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import option_ns
from fencepost.checkers.rules import NothingOlder, Rule, Statement, says, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, by, duration
from fencepost.harness.history import Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.groups.members import completed_ns
from fencepost.systems.kafka.checkers.log_transactions.view import PartitionLog, TransactionsView


def _reused(before: Statement, begin: Statement) -> Iterator[str]:
    assert isinstance(before.by, Operation) and isinstance(begin.by, Operation)
    yield f"A producer of {begin.of} began {by(before.by)}, with token {before.low}."
    later = duration(begin.asked_ns - before.known_ns)
    yield f"{later} later another one began {by(begin.by)}, with token {begin.low}."


COMMITTED: Final = Rule(
    guarantee="transactional-producers-fenced",
    anomaly="fenced-commit",
    tested="commits that a producer was to ask for after a later one of its name had begun",
)
TOKEN: Final = NothingOlder(
    guarantee="transactional-producers-fenced",
    anomaly="reused-producer-token",
    tested="producers that began after another one of their name",
    strict=True,
    steps=_reused,
)
HANGS: Final = Rule(
    guarantee="no-hanging-transactions",
    anomaly="hanging-transaction",
    tested="transactions that their producer left without knowing their end",
)


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
        later = view.tokens[operation.key].before(asked_ns)
        if later is None or later.result[0] <= begun.result[0]:
            continue
        late.append(operation)
        if operation.type is Outcome.OK:
            steps = (
                f"A producer of {operation.key} began {by(begun)}, with token {begun.result[0]}.",
                f"A later one began {by(later)}, with token {later.result[0]}.",
                f"{duration(asked_ns - completed_ns(later))} after that, or later, the earlier one asked for the"
                f" commit of transaction {transaction.number}, and it was acknowledged.",
            )
            findings.append(COMMITTED.finding(begun, later, operation, steps=steps))
    refused = [operation for operation in late if operation.error == "fenced"]
    return verdict(
        facts,
        COMMITTED.tally(findings, rows(late)),
        TOKEN.judge(says(begin, begin.result[0]) for begin in view.begins),
        kept=f"of {len(late)} transactions whose commit came after a later producer had begun none was acknowledged,"
        f" {len(refused)} were refused as fenced",
        figures={"late_commits_refused": number_of(refused)},
    )


def judge_hanging(view: TransactionsView, facts: Facts) -> Verdict:
    """Judge that committed readers reach the end of every partition, some time after the last transaction."""
    after_ns = option_ns(facts, "hangs_after", "15s")
    open_ones = [transaction.operation for transaction in view.transactions.values() if transaction.left_open]
    unstable = [partition for partition in view.partitions.values() if partition.unstable]
    hanging = [partition for partition in unstable if _waited_ns(view, partition) > after_ns]
    pending = [partition.key for partition in unstable if partition not in hanging]
    unasked = [key for key in view.unread if key not in view.partitions or view.partitions[key].last_read is None]
    doubt = f"the end of {', '.join(pending or unasked)} was not read for long enough"
    hangs = HANGS.tally([_hangs(view, partition) for partition in hanging], rows(open_ones))
    return verdict(
        facts,
        hangs._replace(chances=len(open_ones) + len(hanging)),
        doubt=Doubt(Cause.UNDECIDED, doubt) if pending or unasked else None,
        exposed=rows(open_ones),
        kept=f"{len(open_ones)} transactions that were left open had ended: committed readers reached the end of"
        f" {len(view.partitions)} partitions",
    )


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
    beyond = [sight for own in partition.logged.values() for sight in own.values() if sight.offset >= stable]
    first = min(beyond, key=lambda sight: sight.offset, default=None)
    transaction = None if first is None else view.transactions.get(first.number)
    if first is not None:
        steps.append(f"At offset {first.offset} stands a record of transaction {first.number}.")
    if transaction is None:
        return HANGS.finding(read, steps=steps)
    operation = transaction.operation
    ended = f"{operation.type} ({operation.error})" if operation.error else operation.type
    steps.append(f"That transaction of {operation.key} {by(operation)} ended {ended}.")
    return HANGS.finding(operation, read, steps=steps)
