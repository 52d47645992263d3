"""What became of transactions: are their records all there, or none of them?"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.facts.servers import last_fault_ns, plans_no_fault
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, by, few_of_each, rule
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.log_transactions.view import (
    CHECKER,
    LogTransaction,
    PartitionLog,
    Sight,
    TransactionsView,
)

ATOMIC: Final = "transactions-atomic"
DURABLE: Final = "transactions-durable"
HIDDEN: Final = "aborted-transactions-hidden"
TORN: Final = "torn-transaction"
DOUBLED: Final = "doubled-record"
LOST: Final = "lost-transaction"
VANISHED: Final = "vanished-record"
ABORTED_READ: Final = "aborted-read"
PHANTOM: Final = "phantom-record"
_LACKS: Final = "no fault touched a broker after a transaction was begun"
_NO_READ: Final = "no committed read showed a record"
_NO_ABORTED: Final = "no record of a transaction that was not committed stands in a partition"
_OF_EACH: Final = 2


def disturbed(history: History, facts: Facts, transactions: Sequence[LogTransaction]) -> list[LogTransaction]:
    """The transactions that a fault may have touched; all of them in a run that plans no fault."""
    if plans_no_fault(facts):
        return list(transactions)
    until_ns = last_fault_ns(history, {transaction.operation.node for transaction in transactions})
    return [transaction for transaction in transactions if transaction.operation.invoked_ns < until_ns]


def unread(view: TransactionsView) -> Doubt | None:
    """Why the end of the partitions is not known."""
    if view.unread:
        return Doubt(Cause.UNDECIDED, f"no committed read reached the end of {', '.join(view.unread)}")
    return None


def _what(transaction: LogTransaction) -> str:
    op = transaction.operation
    return f"transaction {transaction.number} of {op.key} {by(op)}"


def _sight(sight: Sight) -> str:
    return f"a committed read of {sight.partition} {by(sight.read)} showed it at offset {sight.offset}"


def _upper(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:]


def judge_atomic(history: History, view: TransactionsView, facts: Facts) -> Verdict:
    """Judge that committed reads show a transaction whole, and each of its records once."""
    several = [t for t in view.transactions.values() if len(t.partitions) > 1 and not t.never]
    exposed = disturbed(history, facts, several)
    findings = [finding for transaction in several if (finding := _torn(view, transaction)) is not None]
    findings += [finding for partition in view.partitions.values() for finding in _doubled(view, partition)]
    shown = [sight.read for p in view.partitions.values() for own in p.final.values() for sight in own.values()]
    transactions = list(view.transactions.values())
    return Findings(
        checker=CHECKER,
        guarantee=ATOMIC,
        findings=findings,
        doubt=unread(view),
        exposed=rows(transaction.operation for transaction in exposed),
        exposure_of="transactions over several partitions that something disturbed",
        untested=_LACKS,
        kept=f"{len(exposed)} transactions over several partitions, of version {view.version}, that something disturbed"
        " were there whole or not at all",
        shown=few_of_each(findings, _OF_EACH),
        rules=(rule(TORN, len(exposed), _LACKS), rule(DOUBLED, len(shown), _NO_READ)),
        counted={
            "commits_ok": rows(p.operation for p in transactions if p.committed),
            "commits_info": rows(p.operation for p in transactions if not p.committed and not p.never),
            "commits_fail": rows(p.operation for p in transactions if p.commits and p.never),
            "aborts_ok": rows(
                p.operation
                for p in transactions
                if not p.commits and p.operation.type is Outcome.OK and p.operation.f != "late-record"
            ),
            "late_records_refused": rows(
                t.operation
                for t in view.transactions.values()
                if t.operation.f == "late-record" and t.operation.type is Outcome.FAIL
            ),
            "begins": rows(view.begins),
            "begins_of_version_2": rows(begin for begin in view.begins if begin.result[1] == 2),
        },
    ).verdict(facts)


def _torn(view: TransactionsView, transaction: LogTransaction) -> Finding | None:
    parts = [view.partitions[key] for key in sorted(transaction.partitions) if key in view.partitions]
    shown = [sight for part in parts for sight in part.shown.get(transaction.number, {}).values()]
    lacking = [part for part in parts if part.complete and transaction.number not in part.final]
    if not shown or not lacking:
        return None
    read = lacking[0].last_read
    assert read is not None
    steps = (
        f"{_what(transaction)} was to put a record into each of {', '.join(sorted(transaction.partitions))}.",
        f"{_upper(_sight(shown[0]))}.",
        f"The committed reads of {lacking[0].key} after healing reach its end, offset {read.result[2]}, and"
        " do not show it.",
    )
    return Finding(anomaly=TORN, operations=(transaction.operation, shown[0].read, read), steps=steps, about=0)


def _doubled(view: TransactionsView, partition: PartitionLog) -> list[Finding]:
    findings = []
    for number, own in partition.final.items():
        by_input: dict[int | None, list[Sight]] = {}
        for sight in own.values():
            by_input.setdefault(sight.input, []).append(sight)
        for twice in by_input.values():
            if len(twice) < 2:
                continue
            offsets = ", ".join(str(sight.offset) for sight in twice)
            steps = (f"The record of transaction {number} stands in {partition.key} at offsets {offsets}.",)
            findings.append(_of(view, number, DOUBLED, twice[1].read, steps))
    return findings


def _of(view: TransactionsView, number: int, anomaly: str, read: Operation, steps: tuple[str, ...]) -> Finding:
    """A finding that a read shows; the transaction stands before it, where there is one."""
    transaction = view.transactions.get(number)
    shown = (read,) if transaction is None else (transaction.operation, read)
    return Finding(anomaly=anomaly, operations=shown, steps=steps)


def judge_durable(history: History, view: TransactionsView, facts: Facts) -> Verdict:
    """Judge that acknowledged commits, and what committed reads showed, are there at the end."""
    committed = [transaction for transaction in view.transactions.values() if transaction.committed]
    exposed = disturbed(history, facts, committed)
    findings = [finding for transaction in committed if (finding := _lost(view, transaction)) is not None]
    early = [
        sight
        for partition in view.partitions.values()
        for own in partition.shown.values()
        for sight in own.values()
        if sight.offset < partition.covered_to and (view.final_ns is None or sight.read.invoked_ns < view.final_ns)
    ]
    for sight in early:
        if sight.offset not in view.partitions[sight.partition].final.get(sight.number, {}):
            last = view.partitions[sight.partition].last_read
            assert last is not None
            steps = (
                f"Of transaction {sight.number}, {_sight(sight)}.",
                "The committed reads after healing pass that offset and do not show it.",
            )
            findings.append(Finding(anomaly=VANISHED, operations=(sight.read, last), steps=steps, about=0))
    return Findings(
        checker=CHECKER,
        guarantee=DURABLE,
        findings=findings,
        doubt=unread(view),
        exposed=rows(transaction.operation for transaction in exposed),
        exposure_of="acknowledged commits that something disturbed",
        untested=_LACKS,
        kept=f"{len(exposed)} acknowledged commits that something disturbed are there with all of their records",
        shown=few_of_each(findings, _OF_EACH),
        rules=(rule(LOST, len(exposed), _LACKS), rule(VANISHED, len(early), _NO_READ)),
    ).verdict(facts)


def _lost(view: TransactionsView, transaction: LogTransaction) -> Finding | None:
    for key, offset in transaction.records:
        partition = view.partitions.get(key)
        if partition is None or partition.covered_to <= offset or offset in partition.final.get(transaction.number, {}):
            continue
        assert partition.last_read is not None
        steps = (
            f"The commit of {_what(transaction)} was acknowledged; its record in {key} has offset {offset}.",
            f"The committed reads of {key} after healing pass that offset and do not show it.",
        )
        return Finding(anomaly=LOST, operations=(transaction.operation, partition.last_read), steps=steps, about=0)
    return None


def judge_hidden(view: TransactionsView, facts: Facts) -> Verdict:
    """Judge every record that a committed read showed."""
    findings: list[Finding] = []
    for partition in view.partitions.values():
        for number, own in partition.shown.items():
            transaction = view.transactions.get(number)
            if transaction is not None and not transaction.never:
                continue
            sight = next(iter(own.values()))
            if transaction is None:
                phantom = f"{_upper(_sight(sight))}: transaction {number}, which nobody played."
                findings.append(_of(view, number, PHANTOM, sight.read, (phantom,)))
            else:
                why = "was to be aborted" if not transaction.commits else f"was refused ({transaction.operation.error})"
                steps = (f"{_upper(_what(transaction))} {why}.", f"{_upper(_sight(sight))}.")
                findings.append(_of(view, number, ABORTED_READ, sight.read, steps))
    passed = {
        number
        for partition in view.partitions.values()
        for number, own in partition.logged.items()
        if any(sight.offset < partition.covered_to for sight in own.values())
    }
    hidden = [
        transaction for number, transaction in view.transactions.items() if transaction.never and number in passed
    ]
    shown = [sight.read for p in view.partitions.values() for own in p.shown.values() for sight in own.values()]
    left = [transaction for transaction in hidden if transaction.commits]
    dirty = sum(finding.anomaly == ABORTED_READ for finding in findings)
    return Findings(
        checker=CHECKER,
        guarantee=HIDDEN,
        findings=findings,
        exposed=rows(transaction.operation for transaction in hidden),
        exposure_of="transactions that were not committed, and whose records committed reads passed over",
        untested=_NO_ABORTED,
        kept=f"no committed read showed a record of one of {len(hidden)} transactions that were not committed and"
        " stand in the log",
        shown=few_of_each(findings, _OF_EACH),
        rules=(rule(ABORTED_READ, len(hidden) + dirty, _NO_ABORTED), rule(PHANTOM, len(shown), _NO_READ)),
        counted={"refused_commits_in_the_log": rows(transaction.operation for transaction in left)},
    ).verdict(facts)
