"""Every `invalid` of the native search comes with a proof that holds by itself, and one that can't be made smaller."""

import random
from collections.abc import Iterator

import msgspec
import pytest

from fencepost.checkers import _core
from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ, WRITE, ProofRow, made, refuted, seen
from tests.checkers.storage.test_linearizable import judge
from tests.histories.simulate import Shape, bend, valid_history


class Window(msgspec.Struct, frozen=True):
    """A proof with the rows of one key alone."""

    since: int | None
    until: int
    must: tuple[int, ...]
    may: tuple[int, ...] = ()
    shown: tuple[tuple[int, int], ...] = ()


def window_of(proof: _core.Proof, first: int) -> Window:
    return Window(
        proof.since,
        proof.until,
        tuple(row - first for row in proof.must),
        tuple(row - first for row in proof.may),
        tuple((row - first, by - first) for row, by in proof.shown),
    )


def bent_histories(seed: int, count: int, operations: int = 16) -> list[list[ProofRow]]:
    rng = random.Random(seed)
    found: list[list[ProofRow]] = []
    while len(found) < count:
        shape = Shape(
            operations=rng.randint(2, operations),
            clients=rng.randint(1, 7),
            values=rng.choice([0, 1, 2, 3]),
            info=rng.choice([0.0, 0.1, 0.3, 0.6]),
        )
        rows = valid_history(rng, shape)
        for _ in range(rng.randrange(4)):
            rows = bend(rng, rows, shape.values)
        if rows:
            found.append(rows)
    return found


def proven(histories: list[list[ProofRow]]) -> Iterator[tuple[list[ProofRow], Window, Window]]:
    """The invalid ones of the histories, with both proofs."""
    first = 0
    for rows, result in zip(histories, judge(histories), strict=True):
        assert (result.verdict == "invalid") == (result.proof is not None) == (result.minimal is not None)
        if result.proof is not None and result.minimal is not None:
            yield rows, window_of(result.proof, first), window_of(result.minimal, first)
        first += len(rows)


def cuts(rows: list[ProofRow], window: Window) -> Iterator[Window]:
    """All that one sound cut leaves: an operation that must go in is gone, or, if somebody saw what it made, let go."""
    for cut in window.must:
        must = tuple(row for row in window.must if row != cut)
        may = tuple(sorted((*window.may, *([] if rows[cut].f == READ else [cut]))))
        while True:
            wanted = {seen(rows[row]) for row in (*must, *may)}
            kept = tuple(row for row in may if made(rows[row]) in wanted)
            if kept == may:
                break
            may = kept
        yield msgspec.structs.replace(window, must=must, may=may)


def assert_proven(histories: list[list[ProofRow]]) -> int:
    count = 0
    for rows, window, minimal in proven(histories):
        count += 1
        # Of windows that hold more, trying all orders by the plain search takes too long.
        assert len(window.may) > 8 or refuted(rows, window) is None, (rows, window)
        assert refuted(rows, minimal) is None, (rows, minimal)
        for smaller in cuts(rows, minimal):
            why = refuted(rows, smaller)
            assert why is not None and why.startswith("there is an order"), (rows, minimal, smaller, why)
    return count


def test_every_refutation_is_proven_and_its_smallest_form_has_nothing_to_spare() -> None:
    assert assert_proven(bent_histories(1, 3_000)) > 500


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("operations", [16, 40])
def test_twenty_thousand_refutations_are_proven(operations: int) -> None:
    seed, count = 100 * operations, 0
    while count < 10_000:
        seed += 1
        count += assert_proven(bent_histories(seed, 2_000, operations))


def test_no_sound_cut_makes_a_violation_out_of_nothing() -> None:
    rng = random.Random(7)
    for _ in range(400):
        shape = Shape(operations=10, clients=4, values=rng.choice([0, 2, 3]), info=0.2)
        rows = valid_history(rng, shape)
        times = sorted({row.invoked for row in rows})
        since = rng.choice([None, *times])
        until = max((row.returned for row in rows if row.returned != NEVER), default=0.0)
        begin = -1 if since is None else int(since)
        must = tuple(i for i, row in enumerate(rows) if row.invoked >= begin and row.returned <= until)
        may = tuple(i for i, row in enumerate(rows) if i not in must and row.f != READ and row.returned >= begin)
        window = Window(None if since is None else begin, int(until), must, may)
        while window.must:
            why = refuted(rows, window)
            assert why is not None and why.startswith("there is an order"), (rows, window, why)
            window = rng.choice(list(cuts(rows, window)))


STALE = [ProofRow(WRITE, 1, 0, 0, 1), ProofRow(WRITE, 2, 0, 2, 3), ProofRow(READ, 1, 0, 4, 5)]


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (Window(None, 5, (0, 1, 2)), None),
        (Window(2, 5, (1, 2)), None),
        (Window(None, 5, (1, 2), (0,)), "there is an order from 0"),
        (Window(None, 5, (1, 2)), "operation 0 is left out, and made a value that was seen"),
        (Window(1, 5, (1, 2)), "operation 0 is left out, and made a value that was seen"),
        (Window(4, 5, (2,)), "there is an order from 1"),
        (Window(None, 4, (0, 1, 2)), "operation 2 need not take effect"),
        (Window(3, 5, (1, 2)), "operation 1 need not take effect"),
        (Window(None, 5, (0, 1, 2), (2,)), "named twice"),
        (Window(None, 5, (0, 1, 3)), "not there"),
        (Window(2, 5, (1, 2), (), ((1, 2),)), "operation 2 does not show that operation 1"),
    ],
)
def test_a_proof_is_refused_for_what_is_wrong_with_it(window: Window, why: str | None) -> None:
    found = refuted(STALE, window)
    assert found == why if why is None or found is None else why in found


@pytest.mark.parametrize(
    "rows", [[ProofRow(WRITE, 0, 0, 0, NEVER)], [ProofRow(WRITE, 1, 0, 0, NEVER), ProofRow(WRITE, 1, 0, 0, 1)]]
)
def test_a_value_that_may_come_from_elsewhere_shows_no_write(rows: list[ProofRow]) -> None:
    reader = len(rows)
    history = [*rows, ProofRow(READ, rows[0].a, 0, 2, 3)]
    window = Window(None, 3, tuple(range(len(history))), (), ((0, reader),))
    assert refuted(history, window) == f"operation {reader} does not show that operation 0 had taken effect"


def test_a_write_that_touches_either_end_of_a_window_may_not_be_left_out() -> None:
    touching = "operation {} is left out, and made a value that was seen"
    late = [*STALE, ProofRow(WRITE, 1, 0, 5, 6)]
    assert refuted(late, Window(None, 5, (0, 1, 2))) == touching.format(3)
    early = [ProofRow(WRITE, 1, 0, 0, 2), *STALE[1:]]
    assert refuted(early, Window(2, 5, (1, 2))) == touching.format(0)


def test_what_only_one_write_can_have_made_places_that_write() -> None:
    writes = [ProofRow(WRITE, i, 0, i, NEVER) for i in range(1, 6)]
    seen_in_turn = enumerate((1, 2, 3, 4, 5, 1), start=1)
    rows = writes + [ProofRow(READ, value, 0, 10 * at, 10 * at + 1) for at, value in seen_in_turn]
    ((_, window, minimal),) = proven([rows])
    # 1 was written once, of unknown outcome, and had been seen by the time that the others were.
    assert window.shown and (0, 5) in window.shown
    assert (minimal.since, minimal.must, minimal.may, minimal.shown) == (None, (5, 9, 10), (0, 4), ())


def test_a_violation_at_the_end_of_a_long_chain_is_proven_by_a_few() -> None:
    chain = [ProofRow(CAS, i, i + 1, 2 * i, 2 * i + 1) for i in range(200)]
    ((_, _, minimal),) = proven([[*chain, ProofRow(READ, 150, 0, 1000, 1001)]])
    assert len(minimal.must) + len(minimal.may) <= 3
