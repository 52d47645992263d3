"""Append-only logs with appends of unknown outcome: judged as every order says, however long they are."""

import random
from collections import Counter
from typing import Any

import pytest

from fencepost.checkers.confirm import confirm
from fencepost.checkers.objects import judging
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Validity
from tests.checkers.objects.object_twins import Drawn, operations_of
from tests.checkers.objects.test_object_proofs import history_of, judged, kept


def _drawn(rng: random.Random) -> list[Drawn]:
    """Two to six calls beside and behind each other, whose offsets and values fit together more or less."""
    calls, count = [], rng.randint(2, 6)
    times = rng.sample(range(1000), 2 * count)
    for place in range(count):
        invoked, returned = sorted(times[2 * place : 2 * place + 2])
        if rng.random() < 0.5:
            returned = min((time for time in times if time > invoked), default=returned)
        value, offset = rng.choice("abb"), rng.randrange(4)
        if rng.random() < 0.55:
            known = rng.random() < 0.5
            calls.append(Drawn(place, "append", value, [offset, value] if known else None, invoked, returned, known))
        else:
            calls.append(
                Drawn(place, "read", offset, [offset, rng.choice((value, value, None))], invoked, returned, True)
            )
        # Each time once only.
        calls[-1].returned += (place + 1) / 100
    return calls


def _explainable(operations: list[Operation]) -> bool:
    """Whether some order explains what was answered; an append of unknown outcome goes to any offset, or nowhere."""

    def extended(left: frozenset[int], log: tuple[tuple[int, Any], ...]) -> bool:
        rest = [operations[place] for place in left]
        if all(op.complete_index is None for op in rest):
            return True
        soonest = min(op.complete_index for op in rest if op.complete_index is not None)
        last = log[-1][0] if log else -1
        for place in left:
            op: Any = operations[place]
            if op.invoke_index > soonest:
                continue
            if op.f == "read":
                after = [log] if dict(log).get(op.value) == op.result[1] else []
            elif op.complete_index is None:
                after = [(*log, (offset, op.value)) for offset in range(last + 1, 4)]
            else:
                after = [(*log, tuple(op.result))] if op.result[0] > last else []
            if any(extended(left - {place}, new) for new in after):
                return True
        return False

    return extended(frozenset(range(len(operations))), ())


def _compare(seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[bool]:
    counted: Counter[bool] = Counter()
    for seed in seeds:
        operations = operations_of(_drawn(random.Random(f"append-log {seed}")))
        monkeypatch.setattr(judging, "ORDERED_MAX", 5_000)
        verdict = judged("append-log", operations)
        assert verdict.validity is not Validity.INVALID or not _explainable(operations), (seed, operations)
        assert bool(verdict.anomalies) == (not _explainable(operations)), (seed, operations, verdict)
        confirm(history_of(operations), kept(verdict))
        # Too long to keep its order: it is carried out all the same.
        monkeypatch.setattr(judging, "ORDERED_MAX", 0)
        long = judged("append-log", operations)
        assert (long.validity, long.counts, long.proofs) == (verdict.validity, verdict.counts, ())
        counted[verdict.validity is Validity.INVALID] += 1
    return counted


def test_small_logs_are_judged_as_all_orders_say(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = _compare(range(250), monkeypatch)
    assert min(counted[True], counted[False]) >= 40, counted


@pytest.mark.long
def test_small_logs_are_judged_as_all_orders_say_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    _compare(range(250, 30_000), monkeypatch)


def _read_before_it_was_appended(plain: int) -> list[Operation]:
    calls = [
        Drawn(1, "append", 2, [1, 2], 0, 1, True),
        Drawn(0, "read", 0, [0, 3], 2, 3, True),
        *(Drawn(0, "append", 9 + i, [9 + i, 9 + i], 4 + 2 * i, 5 + 2 * i, True) for i in range(plain)),
        Drawn(2, "append", 3, None, 4 + 2 * plain, 5 + 2 * plain, False),
    ]
    return operations_of(calls)


@pytest.mark.parametrize("plain", [0, 3, 5_000])
def test_a_value_that_is_read_before_its_append_was_asked_for_is_a_violation(plain: int) -> None:
    operations = _read_before_it_was_appended(plain)
    verdict = judged("append-log", operations)
    assert (verdict.validity, verdict.counts) == (Validity.INVALID, {"phantom-read": 1})
    assert confirm(history_of(operations), kept(verdict)) == 1
