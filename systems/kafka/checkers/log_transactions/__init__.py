"""Transactions over partitions: all or nothing, kept once acknowledged, hidden when aborted, fenced, never hanging.

Six verdicts on the operations of `systems.kafka.workloads.log_transactions`:
  - "transactions-atomic": committed reads show a transaction's records in all of its partitions, once each, or in none;
  - "transactions-durable": what was acknowledged as committed, or shown to a committed read, is there at the end;
  - "aborted-transactions-hidden": no committed read shows a record of a transaction that was not committed;
  - "transactional-producers-fenced": a producer commits nothing after a later one of its name has begun;
  - "no-hanging-transactions": at the end no transaction keeps committed readers from the end of a partition;
  - "transforms-exactly-once": each record of an input was transformed once, up to the committed offset.

A transaction was not committed if its producer asked for no commit, or if the coordinator refused it; its number is in
each of its records. When the outcome of a commit is unknown, either all or nothing is right.

Source: KIP-98 (transactions), KIP-447 (exactly once over what was read), KIP-890 (hanging transactions).
"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.derived.positions import completed_ns, option_ns
from fencepost.checkers.rules import NothingOlder, Rule, Statement, says, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, by, duration
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.log_transactions.outcomes import (
    UNTOUCHED,
    disturbed,
    judge_atomic,
    judge_durable,
    judge_hidden,
    unread,
)
from fencepost.systems.kafka.checkers.log_transactions.view import PartitionLog, Sight, TransactionsView


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge one history.

    Returns:
        The six verdicts above, in that order; the first one carries the figures.

    Cost: O(n log n) for n operations and records read.
    """
    view = TransactionsView(history)
    return [
        judge_atomic(history, view, facts),
        judge_durable(history, view, facts),
        judge_hidden(view, facts),
        judge_fenced(view, facts),
        judge_hanging(view, facts),
        judge_inputs(history, view, facts),
    ]


_ONCE: Final = "transforms-exactly-once"
DISTURBED: Final = "transactions that read an input, and that something disturbed"
TWICE, AHEAD, MISSING = (
    Rule(guarantee=_ONCE, anomaly=anomaly, tested=DISTURBED, lacks="no input was read")
    for anomaly in ("repeated-transform", "uncounted-transform", "missing-transform")
)


def judge_inputs(history: History, view: TransactionsView, facts: Facts) -> Verdict:
    """Judge the inputs whose committed offset was read at the end."""
    outputs: dict[str, dict[int, list[Sight]]] = {name: {} for name in view.consumed}
    for partition in view.partitions.values():
        for number, own in partition.final.items():
            transaction = view.transactions.get(number)
            for sight in own.values():
                if transaction is not None and sight.input is not None and transaction.operation.key in outputs:
                    outputs[transaction.operation.key].setdefault(sight.input, []).append(sight)
    findings = [finding for name in sorted(outputs) for finding in _of_input(view, name, outputs[name])]
    transforms = [p for p in view.transactions.values() if p.operation.f == "transform"]
    exposed = [p for p in disturbed(history, facts, transforms) if p.committed or p.left_open]
    names = {p.operation.key for p in transforms}
    unasked = sorted(name for name in names if name is not None and name not in view.consumed)
    doubt = Doubt(Cause.UNDECIDED, f"nobody read at the end how far {', '.join(unasked)} had come") if unasked else None
    outputs_seen = sum(map(len, outputs.values()))
    records = sum(answer.result for answer in view.consumed.values())
    return verdict(
        facts,
        *sorted_out(findings, {TWICE: outputs_seen, AHEAD: outputs_seen, MISSING: records}),
        doubt=doubt or unread(view),
        exposed=rows(p.operation for p in exposed),
        untested=UNTOUCHED if transforms else "no input was read",
        kept=f"{records} records of {len(outputs)} inputs were transformed once"
        " each, and none beyond the committed offsets",
        figures={"transforms_ok": number_of(p.operation for p in transforms if p.committed)},
    )


def _of_input(view: TransactionsView, name: str, outputs: dict[int, list[Sight]]) -> list[Finding]:
    answer = view.consumed[name]
    end = answer.result
    findings = []
    for offset, own in sorted(outputs.items()):
        makers = [view.transactions[sight.number].operation for sight in own]
        if len(own) > 1:
            where = " and ".join(f"{sight.partition} at offset {sight.offset} ({sight.number})" for sight in own)
            both = (f"Of the record at offset {offset} of the input of {name}, transactions put records into {where}.",)
            findings.append(TWICE.finding(*_distinct(makers), own[-1].read, steps=both))
        if offset >= end:
            steps = (
                f"Transaction {own[0].number} put a record of the input's offset {offset} into {own[0].partition}.",
                f"The committed offset of {name} is {end} at the end: that record is still to be read.",
            )
            findings.append(AHEAD.finding(makers[0], own[0].read, answer, steps=steps))
    if view.unread:
        return findings
    for offset in range(end):
        if offset not in outputs:
            lacking = (
                f"The committed offset of {name} is {end} at the end.",
                f"No committed record of its input's offset {offset} stands in any partition.",
            )
            findings.append(MISSING.finding(answer, steps=lacking))
    return findings


def _distinct(operations: list[Operation]) -> list[Operation]:
    return list({operation.invoke_index: operation for operation in operations}.values())


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
