"""Exposure: no history is called untested that one wrong answer would have made invalid; every answer is tried."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

import pytest

from fencepost.checkers.derived.positions import exposed
from fencepost.checkers.objects.judging import checker_of
from fencepost.checkers.storage import registers
from fencepost.checkers.storage.register_proofs import CAS, READ, WRITE, ProofRow, linearize
from fencepost.harness.history import Event, History, OpEvent, Outcome
from fencepost.harness.verdict import Cause, Thresholds, Validity
from tests.checkers.build import facts

HISTORIES: Final = 1_500
_NEVER: Final = float("inf")


@dataclass(frozen=True)
class Told:
    """One operation of a small history: `a` is what was written, read or compared with, `b` what a cas wrote."""

    f: str
    a: int
    b: int
    process: int
    invoked: int
    returned: float

    @property
    def is_answer(self) -> bool:
        return self.f == "read" and self.returned != _NEVER


def _small(rng: random.Random, functions: Sequence[str]) -> list[Told]:
    """One to five operations on one object, by one to three processes, of any outcome and any answer."""
    clients = rng.randint(1, 3)
    free = dict.fromkeys(range(clients), 0)
    told = []
    for place in range(rng.randint(1, 5)):
        process = rng.randrange(clients)
        begin = free[process] + rng.randint(0, 12)
        end: float = begin + rng.randint(1, 12)
        free[process] = int(end) + 1
        if rng.random() < 0.15:
            end, process = _NEVER, 100 + place
        told.append(Told(rng.choice(functions), rng.randrange(3), rng.randrange(1, 3), process, begin, end))
    # Every moment is one event's.
    moments = sorted(
        [(op.invoked, 0, i) for i, op in enumerate(told)]
        + [(op.returned, 1, i) for i, op in enumerate(told) if op.returned != _NEVER]
    )
    at = {(end, i): place for place, (_, end, i) in enumerate(moments)}
    return [replace(op, invoked=at[0, i], returned=at.get((1, i), _NEVER)) for i, op in enumerate(told)]


def _history(told: Sequence[Told], *, counted: bool = False) -> History:
    """`counted`: 0 is a sum, and not nothing."""
    events: list[Event] = []
    moments = sorted(
        [(op.invoked, False, op) for op in told] + [(op.returned, True, op) for op in told if op.returned != _NEVER],
        key=lambda moment: moment[0],
    )
    for index, (_, ends, op) in enumerate(moments):
        nothing = 0 if counted else None
        plain = op.a or nothing
        asked = None if op.f == "read" and not ends else [plain, op.b] if op.f == "cas" else plain
        events.append(
            OpEvent(
                index=index,
                time_ns=index,
                type=Outcome.OK if ends else Outcome.INVOKE,
                process=op.process,
                f=op.f,
                node="n",
                key="x",
                value=asked,
            )
        )
    return History(events)


def _register_is_kept(told: Sequence[Told]) -> bool:
    codes = {"read": READ, "write": WRITE, "cas": CAS}
    rows = [ProofRow(codes[op.f], op.a, op.b, op.invoked, op.returned) for op in told]
    return linearize([row for row in rows if row.f != READ or row.returned != _NEVER]) is not None


def _could_be_read(told: Sequence[Told]) -> set[int]:
    """Nothing, and what a write, or a cas that certainly took effect, made."""
    written = {op.a for op in told if op.f == "write"}
    return {0} | written | {op.b for op in told if op.f == "cas" and op.returned != _NEVER}


def _counter_is_kept(told: Sequence[Told]) -> bool:
    """Every order of the operations is tried, with and without those of unknown outcome."""
    known = [op for op in told if op.returned != _NEVER]
    unknown = [op for op in told if op.returned == _NEVER and op.f == "add"]
    for chosen in range(1 << len(unknown)):
        some = [op for i, op in enumerate(unknown) if chosen >> i & 1]
        for order in permutations([*known, *some]):
            late = any(b.returned < a.invoked for i, a in enumerate(order) for b in order[i + 1 :])
            if not late and _sums_fit(order):
                return True
    return False


def _sums_fit(order: Sequence[Told]) -> bool:
    total = 0
    for op in order:
        if op.f == "read" and op.a != total:
            return False
        total += op.a if op.f == "add" else 0
    return True


def _could_be_sum(told: Sequence[Told]) -> set[int]:
    sums = {0}
    for op in told:
        sums |= {total + op.a for total in sums} if op.f == "add" else set()
    return sums


def _with_another_answer(told: Sequence[Told], values: set[int]) -> Iterator[list[Told]]:
    for i, op in enumerate(told):
        if op.is_answer:
            yield from ([*told[:i], replace(op, a=value), *told[i + 1 :]] for value in values - {op.a})


@pytest.mark.parametrize("name", ["register", "counter"])
def test_what_is_called_untested_has_no_answer_that_could_have_been_caught_out(name: str) -> None:
    """The answers tried are those that some operation could have made; one that nobody made is wrong by itself."""
    is_register = name == "register"
    kept, values = (_register_is_kept, _could_be_read) if is_register else (_counter_is_kept, _could_be_sum)
    check = registers.check if is_register else checker_of("counter")
    functions = ("read", "read", "write", "cas") if is_register else ("read", "read", "add")
    asked = facts(thresholds=Thresholds(exposure_min=1), required=("linearizable",))
    tested = untested = 0
    for seed in range(HISTORIES):
        told = _small(random.Random(f"{name} {seed}"), functions)
        if not is_register:
            told = [replace(op, a=op.a if op.is_answer else op.b) for op in told]
        if not kept(told):
            continue
        (verdict,) = check(_history(told, counted=not is_register), asked)
        if verdict.validity is Validity.VALID:
            tested += 1
            continue
        assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE), (seed, told, verdict)
        untested += 1
        for other in _with_another_answer(told, values(told)):
            assert kept(other), (seed, told, other)
    assert min(tested, untested) > HISTORIES / 20, (tested, untested)


ONE_CLIENT: Final = (("write 1", "read 1"), ("read -", "write 1"), ("write 1", "read 1", "read 1"))


@pytest.mark.parametrize("words", ONE_CLIENT, ids=" ".join)
def test_the_reads_of_a_single_client_are_put_to_the_test(words: tuple[str, ...]) -> None:
    told = [
        Told(f, 0 if value == "-" else int(value), 0, 0, 2 * i, 2 * i + 1)
        for i, (f, value) in enumerate(word.split() for word in words)
    ]
    operations = _history(told).operations
    found = exposed([operations], {"write"}, {"read"})
    assert found == [op for op in operations if op.f == "read"]
    (verdict,) = registers.check(_history(told), facts(thresholds=Thresholds(exposure_min=1)))
    assert verdict.validity is Validity.VALID


def test_reads_of_what_nobody_changes_test_nothing() -> None:
    told = [Told("read", 0, 0, 0, 0, 1), Told("read", 0, 0, 1, 2, 3)]
    assert exposed([_history(told).operations], {"write"}, {"read"}) == []
