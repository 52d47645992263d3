"""What came out, in three classes that are never averaged together, and beside each what was wanted of it.

The same kind of algorithm: both search (cas, kv), where Porcupine finishes. A monitor against a search: unique writes.
Newly solved: what Porcupine does not finish.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bench.against_porcupine.cells import CLIENTS, INFO, KINDS, SMALL, End, Outcome, Side
from bench.against_porcupine.histories import Shape

HEAD: Final = ("| figure | measured | wanted | how |", "| --- | --- | --- | --- |")
_MILLION: Final = 1_000_000
_SOLVED_OPERATIONS: Final = 100_000
_SOLVED_CLIENTS: Final = 10
_SOLVED_S: Final = 3.0
_SOLVED_BYTES: Final = 10**9


def lines(outcomes: Sequence[Outcome], recorded: Sequence[tuple[str, Outcome]]) -> list[str]:
    """The classes, the grid, and the recorded histories."""
    return [
        *HEAD,
        *_same_kind(outcomes),
        *_monitor(outcomes),
        *_newly_solved(outcomes),
        "",
        *_grid(outcomes),
        *_recorded(recorded),
    ]


def _row(figure: str, measured: str, wanted: str, how: str) -> str:
    return f"| {figure} | {measured} | {wanted} | {how} |"


def _ratios(title: str, outcomes: Sequence[Outcome], mean: str, least: str) -> Iterator[str]:
    ratios = [(ratio, outcome) for outcome in outcomes if (ratio := outcome.ratio) is not None]
    if not ratios:
        yield _row(title, "no cell", mean, "Porcupine finished none of those that were measured")
        return
    middle = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    worst = min(ratios, key=lambda pair: pair[0])
    yield _row(f"{title}: geometric mean", f"{middle:.3g} times as fast", mean, f"{len(ratios)} cells")
    below = sum(ratio < 3 for ratio, _ in ratios)
    yield _row(f"{title}: worst cell", f"{worst[0]:.3g} times", least, f"{name(worst[1].shape)}; {below} cells below 3")


def _same_kind(outcomes: Sequence[Outcome]) -> Iterator[str]:
    finished = [outcome for outcome in outcomes if outcome.shape.kind != "register" and outcome.theirs.end is End.DONE]
    yield from _ratios("same kind of algorithm", finished, "at least 10", "at least 3")
    small = [outcome for outcome in finished if outcome.shape.operations == SMALL]
    yield from _slowest("same kind, 1,000 operations", small, "at most 0.1 ms")
    large = [o for o in outcomes if o.shape.kind == "kv" and o.shape.operations == _MILLION]
    yield from _slowest("kv, 1,000,000 operations", large, "at most 150 ms", memory="at most 150 MB")


def _monitor(outcomes: Sequence[Outcome]) -> Iterator[str]:
    unique = [outcome for outcome in outcomes if outcome.shape.kind == "register"]
    finished = [outcome for outcome in unique if outcome.theirs.end is End.DONE]
    yield from _ratios("monitor against search", finished, "-", "-")
    large = [outcome for outcome in unique if outcome.shape.operations == _MILLION]
    yield from _slowest("unique writes, 1,000,000 operations", large, "at most 60 ms")
    growths = []
    for outcome in large:
        if outcome.ours.end is not End.DONE:
            continue
        before = [o for o in unique if o.ours.end is End.DONE and o.shape == _tenth(outcome.shape)]
        growths += [(outcome.ours.cpu_s / other.ours.cpu_s, outcome) for other in before]
    if growths:
        most = max(growths, key=lambda pair: pair[0])
        yield _row("unique writes: growth from 100,000", f"{most[0]:.3g} times", "at most 12", name(most[1].shape))


def _newly_solved(outcomes: Sequence[Outcome]) -> Iterator[str]:
    unfinished = [outcome for outcome in outcomes if outcome.theirs.end is not End.DONE]
    judged = [o for o in unfinished if o.shape.operations <= _SOLVED_OPERATIONS and o.shape.clients <= _SOLVED_CLIENTS]
    solved = [
        o for o in judged if o.ours.end is End.DONE and o.ours.cpu_s <= _SOLVED_S and o.ours.peak_bytes <= _SOLVED_BYTES
    ]
    yield _row(
        "newly solved, up to 100,000 operations and 10 clients",
        f"{len(solved)} of {len(judged)} cells",
        "all, each within 3 s and 1 GB",
        _ends(judged),
    )
    yield from _slowest("of these", judged, "at most 3 s", memory="at most 1 GB")
    others = [outcome for outcome in unfinished if outcome not in judged]
    if others:
        times = "; ".join(f"{name(o.shape)}: {_time_of(o.ours)}" for o in others)
        yield _row(
            "newly solved, beyond", f"{sum(o.ours.end is End.DONE for o in others)} of {len(others)}", "-", times
        )
    unsolved = [outcome for outcome in outcomes if outcome.ours.end is not End.DONE]
    if unsolved:
        times = "; ".join(f"{name(o.shape)}: {_time_of(o.ours)}" for o in unsolved)
        yield _row("without an answer of ours", f"{len(unsolved)} of {len(outcomes)} cells", "none", times)


def _slowest(title: str, outcomes: Sequence[Outcome], wanted: str, memory: str = "") -> Iterator[str]:
    if not outcomes:
        return
    slowest = max(outcomes, key=lambda outcome: (outcome.ours.end is not End.DONE, outcome.ours.cpu_s))
    by = f", by {slowest.method}" if slowest.method else ""
    yield _row(f"{title}: slowest", _time_of(slowest.ours), wanted, f"{name(slowest.shape)}{by}; {len(outcomes)} cells")
    if memory:
        most = max(outcomes, key=lambda outcome: outcome.ours.peak_bytes)
        yield _row(f"{title}: most memory", f"{most.ours.peak_bytes / 1e6:.0f} MB", memory, name(most.shape))


def _ends(outcomes: Sequence[Outcome]) -> str:
    counts = {end: sum(outcome.theirs.end is end for outcome in outcomes) for end in End}
    return (
        f"Porcupine: {counts[End.TIME]} out of time, {counts[End.MEMORY]} out of memory, "
        f"{counts[End.NOT_ASKED]} not asked, since a milder cell was too much"
    )


def _grid(outcomes: Sequence[Outcome]) -> Iterator[str]:
    columns = [(valid, info) for valid in (True, False) for info in INFO]
    heads = [f"{'ok' if valid else 'bad'} {info * 100:g} %" for valid, info in columns]
    yield f"| Porcupine / ours, ms | {' | '.join(heads)} |"
    yield "| --- |" + " --- |" * len(heads)
    by_shape = {outcome.shape: outcome for outcome in outcomes}
    sizes = sorted({outcome.shape.operations for outcome in outcomes})
    for kind in KINDS:
        for size in sizes:
            for clients in CLIENTS:
                row = [
                    by_shape.get(Shape(kind=kind, operations=size, clients=clients, info=info, valid=valid))
                    for valid, info in columns
                ]
                if any(row):
                    yield f"| {kind} {_size(size)} c{clients} | {' | '.join(_cell(outcome) for outcome in row)} |"


def _recorded(outcomes: Iterable[tuple[str, Outcome]]) -> Iterator[str]:
    rows = [_row(title, _cell(o), f"{o.shape.operations}", o.method) for title, o in outcomes]
    if rows:
        yield from ("", "| recorded | Porcupine / ours, ms | operations | by |", "| --- | --- | --- | --- |", *rows)


def name(shape: Shape) -> str:
    """A cell in a few words."""
    end = "ok" if shape.valid else "bad"
    return f"{shape.kind} {_size(shape.operations)} c{shape.clients} {end} {shape.info * 100:g} %"


def _size(operations: int) -> str:
    return f"{operations // _MILLION}M" if operations >= _MILLION else f"{operations // 1000}k"


def _cell(outcome: Outcome | None) -> str:
    return f"{_ms(outcome.theirs)} / {_ms(outcome.ours)}" if outcome else ""


def _ms(side: Side) -> str:
    return f"{side.cpu_s * 1e3:.3g}" if side.end is End.DONE else side.end.value


def _time_of(side: Side) -> str:
    return f"{side.cpu_s * 1e3:.3g} ms" if side.end is End.DONE else f"{side.end.value} after {side.cpu_s:.3g} s"


def _tenth(shape: Shape) -> Shape:
    return Shape(
        kind=shape.kind, operations=shape.operations // 10, clients=shape.clients, info=shape.info, valid=shape.valid
    )
