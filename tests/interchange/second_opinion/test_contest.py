"""The bench against Porcupine: its histories are what they are said to be, and a wrong verdict ends it."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bench.against_porcupine.cells import End, Outcome, Side, grid, milder
from bench.against_porcupine.contest import Limits, Wrong, contest
from bench.against_porcupine.histories import OPERATIONS_OF_A_KEY, Shape, make
from bench.against_porcupine.table import lines
from fencepost.checkers.storage.register_anomalies import CAS, READ, WRITE, Columns
from fencepost.checkers.storage.register_proofs import NEVER, ProofRow, linearize

_LIMITS = Limits(cpu_s=5.0, memory_bytes=1 << 30)
_SMALL = Shape(kind="cas", operations=200, clients=3, info=0.0, valid=True)
_COLUMNS = ("key", "f", "a", "b", "invoked", "returned")


def _rows(columns: Columns, key: int) -> list[ProofRow]:
    here = columns.key == key
    fields = (columns.f, columns.a, columns.b, columns.invoked, columns.returned)
    return [
        ProofRow(f, a, b, invoked, NEVER if returned < 0 else returned)
        for f, a, b, invoked, returned in zip(*(column[here].tolist() for column in fields), strict=True)
    ]


@pytest.mark.parametrize("kind", ["cas", "register", "kv"])
@pytest.mark.parametrize("info", [0.0, 0.1])
@pytest.mark.parametrize("valid", [True, False])
def test_histories_are_what_they_are_said_to_be(kind: str, info: float, valid: bool) -> None:
    for seed in range(4):
        # Few clients and operations: the reference is slow, and a stale read among unknown outcomes is slowest.
        shape = Shape(kind=kind, operations=24 if info and not valid else 60, clients=2, info=info, valid=valid)
        columns = make(shape, seed)
        explained = [linearize(_rows(columns, key)) is not None for key in range(len(columns.keys))]
        assert all(explained) is valid and explained.count(False) <= 1


def test_a_seed_repeats_a_history() -> None:
    def told(seed: int) -> list[list[int]]:
        columns = make(_SMALL, seed)
        return [getattr(columns, name).tolist() for name in _COLUMNS]

    assert told(1) == told(1) != told(2)


def test_shapes_have_what_they_say() -> None:
    cas = make(msgspec.structs.replace(_SMALL, operations=9000, clients=10, info=0.05), 1)
    assert {READ, WRITE, CAS} == set(cas.f.tolist())
    assert 0.68 < len(cas.f) / 9000 < 0.76, "of three compare-and-sets about four in five fail"
    assert 0.03 < (cas.returned < 0).mean() < 0.07 and not (cas.f[cas.returned < 0] == READ).any()
    assert (np.diff(cas.invoked) > 0).all()
    known = cas.returned >= 0
    assert (cas.returned[known] > cas.invoked[known]).all()
    open_at_once = max(
        int(((cas.invoked <= at) & (cas.returned > at) & known).sum()) for at in cas.invoked[known][::50].tolist()
    )
    assert 5 <= open_at_once <= 10
    unique = make(msgspec.structs.replace(_SMALL, kind="register", operations=3000), 1)
    writes = unique.a[unique.f == WRITE]
    assert len(np.unique(writes)) == len(writes) and set(unique.f.tolist()) == {READ, WRITE}
    kv = make(msgspec.structs.replace(_SMALL, kind="kv", operations=6000, clients=10), 1)
    assert len(kv.keys) == 6000 / OPERATIONS_OF_A_KEY


def _program(folder: Path, answers: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\necho '{{\"ready\": true}}'\nwhile read repeats; do\n{answers}\ndone\n")
    path.chmod(0o755)
    return path


def _says(result: str) -> str:
    return f'echo "{{\\"result\\": \\"{result}\\", \\"cpu_ns\\": 30000000, \\"wall_ns\\": 1, \\"peak_bytes\\": 7}}"'


def _held(tmp_path: Path, shape: Shape, answers: str, expected: str | None, *, ask: bool = True) -> Outcome:
    program = _program(tmp_path, answers)
    return contest(shape, make(shape, 1), expected, program, _LIMITS, tmp_path, ask=ask)


def test_a_contest(tmp_path: Path) -> None:
    outcome = _held(tmp_path, _SMALL, _says("Ok"), "valid")
    assert (outcome.theirs.end, outcome.theirs.cpu_s, outcome.theirs.peak_bytes) == (End.DONE, 0.03, 7)
    assert outcome.ours.end is End.DONE and outcome.ours.cpu_s > 0
    assert outcome.ratio == pytest.approx(0.03 / outcome.ours.cpu_s)
    assert [path.name for path in tmp_path.iterdir()] == ["program"]


@pytest.mark.parametrize(("status", "end"), [(3, End.MEMORY), (4, End.TIME)])
def test_a_porcupine_that_gives_up(tmp_path: Path, status: int, end: End) -> None:
    outcome = _held(tmp_path, _SMALL, f"exit {status}", "valid")
    assert outcome.theirs.end is end and outcome.ours.end is End.DONE and outcome.ratio is None
    assert _held(tmp_path, _SMALL, "exit 9", "valid", ask=False).theirs.end is End.NOT_ASKED


@pytest.mark.parametrize(
    ("answers", "expected", "said"),
    [
        (_says("Illegal"), "valid", "ours valid, Porcupine invalid"),
        (_says("Illegal"), None, "of no known verdict"),
        (_says("Ok"), "invalid", "as it was made it is invalid"),
        (f"n=$((n+1)); if [ $n = 1 ]; then {_says('Ok')}; else {_says('Illegal')}; fi", None, "valid, then invalid"),
        ("exit 1", "valid", "ended with 1"),
    ],
)
def test_a_wrong_verdict_ends_it(tmp_path: Path, answers: str, expected: str | None, said: str) -> None:
    with pytest.raises(Wrong, match=said):
        _held(tmp_path, _SMALL, answers, expected)


def _outcome(ours_s: float | None, theirs: float | End, **changes: Any) -> Outcome:
    shape = msgspec.structs.replace(_SMALL, operations=1000, clients=5, **changes)
    return Outcome(
        shape=shape,
        ours=Side(end=End.UNKNOWN, cpu_s=9.0) if ours_s is None else Side(end=End.DONE, cpu_s=ours_s, peak_bytes=10**6),
        theirs=Side(end=theirs) if isinstance(theirs, End) else Side(end=End.DONE, cpu_s=theirs),
        method="search",
    )


def test_classes_are_not_averaged_together() -> None:
    told = "\n".join(
        lines(
            [
                _outcome(0.001, 0.004),
                _outcome(0.001, 0.025, kind="kv", info=0.05),
                _outcome(0.001, 9.0, kind="register"),
                _outcome(0.002, End.TIME, valid=False),
                _outcome(None, End.MEMORY, valid=False, info=0.05),
            ],
            [],
        )
    )
    for line in (
        "| same kind of algorithm: geometric mean | 10 times as fast | at least 10 | 2 cells |",
        "| same kind of algorithm: worst cell | 4 times | at least 3 | cas 1k c5 ok 0 %; 0 cells below 3 |",
        "| same kind, 1,000 operations: slowest | 1 ms | at most 0.1 ms |",
        "| monitor against search: geometric mean | 9e+03 times as fast | - | 1 cells |",
        "| newly solved, up to 100,000 operations and 10 clients | 1 of 2 cells |",
        "1 out of time, 1 out of memory, 0 not asked",
        "| without an answer of ours | 1 of 5 cells | none | cas 1k c5 bad 5 %: unknown after 9 s |",
        "| cas 1k c5 | 4 / 1 |  |  |  | DNF / 2 |  |  | OOM / unknown |",
    ):
        assert line in told, told


def test_a_cell_is_asked_after_milder_ones() -> None:
    shapes = list(grid(quick=False))
    assert len(shapes) == len(set(shapes))
    for number, shape in enumerate(shapes):
        assert not set(milder(shape)) & set(shapes[number:])
    assert {shape.operations for shape in grid(quick=True)} == {1_000, 10_000}
