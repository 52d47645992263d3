"""Consume, transform, produce: was each record of an input transformed once, up to the committed offset?"""

from typing import Final

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.log_transactions.outcomes import UNTOUCHED, disturbed, unread
from fencepost.systems.kafka.checkers.log_transactions.view import Sight, TransactionsView

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
