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

from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.log_transactions.inputs import judge_inputs
from fencepost.systems.kafka.checkers.log_transactions.outcomes import judge_atomic, judge_durable, judge_hidden
from fencepost.systems.kafka.checkers.log_transactions.producers import judge_fenced, judge_hanging
from fencepost.systems.kafka.checkers.log_transactions.view import TransactionsView


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
