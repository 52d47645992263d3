"""Answers that are judged by themselves, whatever order explains them: ids that are given once, totals that agree."""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.rules import Agree, GivenOnce, Statement, says
from fencepost.checkers.violations.finding import describe
from fencepost.checkers.violations.impossible import judges_answers, named, unreadable, wrong
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, Verdict


def _ids(history: History, _: Facts) -> Iterator[Statement]:
    for op in history.operations:
        if op.f == "generate" and is_ok(op) and op.result is not None:
            yield says(op, op.invoke_index, of=json.dumps(op.result, sort_keys=True))


def _twice(first: Statement, second: Statement) -> Iterable[str]:
    yield from (
        f"{describe(each.by)} was given {each.of}." for each in (first, second) if isinstance(each.by, Operation)
    )
    yield "Nobody may be given what somebody else has."


#: Every id that was generated is a new one.
UNIQUE_IDS: Final = GivenOnce(
    guarantee="unique-ids", anomaly="duplicate-id", tested="ids after the first one", view=_ids, steps=_twice
)


def _totals(history: History, _: Facts) -> Iterator[Statement]:
    for op in history.operations:
        if op.f == "read" and is_ok(op) and isinstance(op.result, dict):
            yield says(op, (sum(op.result.values()), sorted(op.result)), of="the accounts")


def _differ(first: Statement, second: Statement) -> Iterable[str]:
    for each in (first, second):
        if isinstance(each.by, Operation):
            yield f"{describe(each.by)} shows {each.low[0]} in all, in the accounts {', '.join(each.low[1])}."
    yield "No transfer changes the total, or the accounts: a snapshot of any moment has the same."


_TOTALS: Final = Agree(
    guarantee="snapshot-totals", anomaly="wrong-total", tested="reads after the first one", view=_totals, steps=_differ
)


def _balances(op: Operation) -> None:
    if op.f == "read" and is_ok(op):
        if not isinstance(op.result, dict) or not op.result:
            wrong(op, f"the read of a bank returned {named(op.result)}; expected the balance of each account")
        elif strange := next((k for k, v in op.result.items() if type(v) is not int), None):
            wrong(op, f"the balance of {strange} is {named(op.result[strange])}; expected an integer")


@judges_answers(unreadable(_balances))
def check_totals(history: History, facts: Facts) -> list[Verdict]:
    """Judge the reads of a bank by their totals alone, as any snapshot of it shows them."""
    return _TOTALS(history, facts)
