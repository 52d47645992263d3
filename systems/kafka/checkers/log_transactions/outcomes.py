"""What became of transactions: are their records all there, or none of them?"""

from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.checkers.derived.evidence import grouped, number_of, rows
from fencepost.checkers.derived.servers import Risk
from fencepost.checkers.rules import Fate, Judged, Rule, Survives, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, by
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.log_transactions.view import (
    LogTransaction,
    PartitionLog,
    Sight,
    TransactionsView,
)

UNTOUCHED: Final = "no fault touched a broker after a transaction was begun"
TORN: Final = Rule(
    guarantee="transactions-atomic",
    anomaly="torn-transaction",
    tested="transactions over several partitions that something disturbed",
    lacks=UNTOUCHED,
)
DOUBLED: Final = Rule(
    guarantee="transactions-atomic", anomaly="doubled-record", tested="records that a committed read showed"
)
LOST: Final = Survives(
    guarantee="transactions-durable",
    anomaly="lost-transaction",
    tested="acknowledged commits that something disturbed",
    lacks=UNTOUCHED,
)
VANISHED: Final = Rule(
    guarantee="transactions-durable", anomaly="vanished-record", tested="records that a committed read showed early"
)
ABORTED_READ: Final = Rule(
    guarantee="aborted-transactions-hidden",
    anomaly="aborted-read",
    tested="transactions that were not committed, and whose records committed reads passed over",
)
PHANTOM: Final = Rule(
    guarantee="aborted-transactions-hidden", anomaly="phantom-record", tested="records that a committed read showed"
)


def disturbed(history: History, facts: Facts, transactions: Sequence[LogTransaction]) -> list[LogTransaction]:
    """The transactions that a fault may have touched; all of them in a run that plans no fault."""
    risk = Risk(history, facts, {transaction.operation.node for transaction in transactions})
    return [transaction for transaction in transactions if risk.runs(transaction.operation)]


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
    transactions = list(view.transactions.values())
    several = [t for t in transactions if len(t.partitions) > 1 and not t.never]
    exposed = disturbed(history, facts, several)
    torn = [finding for transaction in several if (finding := _torn(view, transaction)) is not None]
    doubled = [finding for partition in view.partitions.values() for finding in _doubled(view, partition)]
    shown = sum(len(own) for partition in view.partitions.values() for own in partition.final.values())
    late = [t for t in transactions if t.operation.f == "late-record"]
    aborts = [t for t in transactions if not t.commits and t.operation.type is Outcome.OK and t not in late]
    counted = {
        "commits_ok": [t for t in transactions if t.committed],
        "commits_info": [t for t in transactions if not t.committed and not t.never],
        "commits_fail": [t for t in transactions if t.commits and t.never],
        "aborts_ok": aborts,
        "late_records_refused": [t for t in late if t.operation.type is Outcome.FAIL],
    }
    return verdict(
        facts,
        TORN.tally(torn, rows(transaction.operation for transaction in exposed)),
        DOUBLED.tally(doubled, shown),
        doubt=unread(view),
        kept=f"{len(exposed)} transactions over several partitions, of version {view.version}, that something disturbed"
        " were there whole or not at all",
        figures={
            **{name: number_of(t.operation for t in own) for name, own in counted.items()},
            "begins": number_of(view.begins),
            "begins_of_version_2": number_of(begin for begin in view.begins if begin.result[1] == 2),
        },
    )


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
    return TORN.finding(transaction.operation, shown[0].read, read, steps=steps, about=0)


def _doubled(view: TransactionsView, partition: PartitionLog) -> Iterator[Finding]:
    for number, own in partition.final.items():
        by_input = grouped(own.values(), lambda sight: sight.input)
        for twice in by_input.values():
            if len(twice) > 1:
                offsets = ", ".join(str(sight.offset) for sight in twice)
                steps = (f"The record of transaction {number} stands in {partition.key} at offsets {offsets}.",)
                yield DOUBLED.finding(*_played(view, number), twice[1].read, steps=steps)


def _played(view: TransactionsView, number: int) -> tuple[Operation, ...]:
    """The transaction of this number, where there is one."""
    return (view.transactions[number].operation,) if number in view.transactions else ()


def judge_durable(history: History, view: TransactionsView, facts: Facts) -> Verdict:
    """Judge that acknowledged commits, and what committed reads showed, are there at the end."""
    committed = [transaction for transaction in view.transactions.values() if transaction.committed]
    exposed = {t.number for t in disturbed(history, facts, committed)}
    lost = LOST.judge(Fate(t.operation, t.number in exposed, _lost(view, t)) for t in committed)
    return verdict(
        facts,
        lost,
        _vanished(view),
        doubt=unread(view),
        kept=f"{len(exposed)} acknowledged commits that something disturbed are there with all of their records",
    )


def _vanished(view: TransactionsView) -> Judged:
    findings, early = [], 0
    for partition in view.partitions.values():
        for sight in (sight for own in partition.shown.values() for sight in own.values()):
            before = view.final_ns is None or sight.read.invoked_ns < view.final_ns
            if sight.offset >= partition.covered_to or not before:
                continue
            early += 1
            if sight.offset not in partition.final.get(sight.number, {}):
                assert partition.last_read is not None
                steps = (
                    f"Of transaction {sight.number}, {_sight(sight)}.",
                    "The committed reads after healing pass that offset and do not show it.",
                )
                findings.append(VANISHED.finding(sight.read, partition.last_read, steps=steps, about=0))
    return VANISHED.tally(findings, early)


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
        return LOST.finding(transaction.operation, partition.last_read, steps=steps, about=0)
    return None


def judge_hidden(view: TransactionsView, facts: Facts) -> Verdict:
    """Judge every record that a committed read showed."""
    aborted, phantoms = [], []
    for number, own in ((n, own) for partition in view.partitions.values() for n, own in partition.shown.items()):
        transaction, sight = view.transactions.get(number), next(iter(own.values()))
        if transaction is None:
            step = f"{_upper(_sight(sight))}: transaction {number}, which nobody played."
            phantoms.append(PHANTOM.finding(sight.read, steps=(step,)))
        elif transaction.never:
            why = "was to be aborted" if not transaction.commits else f"was refused ({transaction.operation.error})"
            steps = (f"{_upper(_what(transaction))} {why}.", f"{_upper(_sight(sight))}.")
            aborted.append(ABORTED_READ.finding(transaction.operation, sight.read, steps=steps, about=0))
    passed = {
        number
        for partition in view.partitions.values()
        for number, own in partition.logged.items()
        if any(sight.offset < partition.covered_to for sight in own.values())
    }
    hidden = [t for number, t in view.transactions.items() if t.never and number in passed]
    shown = sum(len(own) for partition in view.partitions.values() for own in partition.shown.values())
    return verdict(
        facts,
        ABORTED_READ.tally(aborted, rows(transaction.operation for transaction in hidden)),
        PHANTOM.tally(phantoms, shown),
        figures={"refused_commits_in_the_log": number_of(t.operation for t in hidden if t.commits)},
    )
