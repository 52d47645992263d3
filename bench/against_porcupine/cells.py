"""The grid of histories, and when Porcupine need not be asked again because a milder one was too much for it."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from bench.against_porcupine.histories import Shape

KINDS: Final = ("cas", "kv", "register")
SIZES: Final = {"cas": (1_000, 10_000, 100_000), "kv": (1_000, 10_000, 100_000, 1_000_000)}
SIZES_UNIQUE: Final = (1_000, 10_000, 100_000, 1_000_000)
SIZE_QUICK_MAX: Final = 10_000
CLIENTS: Final = (5, 10, 20)
INFO: Final = (0.0, 0.001, 0.01, 0.05)
#: Histories of a cell, by size: what a search takes differs from one to the next, small ones most.
HISTORIES_SMALL: Final = 3
SMALL: Final = 1_000


class End(StrEnum):
    """How a checker came out of a cell."""

    DONE = ""
    TIME = "DNF"
    MEMORY = "OOM"
    NOT_ASKED = "-"
    UNKNOWN = "unknown"


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One checker on one history, or, by medians, on those of a cell: processor seconds, and the most memory."""

    end: End
    cpu_s: float = 0.0
    peak_bytes: int = 0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Both on one cell; `method` is what decided on our side."""

    shape: Shape
    ours: Side
    theirs: Side
    method: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as long Porcupine takes."""
        if self.ours.end is not End.DONE or self.theirs.end is not End.DONE:
            return None
        return self.theirs.cpu_s / self.ours.cpu_s


def grid(*, quick: bool) -> Iterator[Shape]:
    """Every cell, the small ones first, so that what time cuts off is large."""
    for size in SIZES_UNIQUE:
        if quick and size > SIZE_QUICK_MAX:
            return
        for kind in KINDS:
            if size not in SIZES.get(kind, SIZES_UNIQUE):
                continue
            for valid in (True, False):
                for clients in CLIENTS:
                    for info in INFO:
                        yield Shape(kind=kind, operations=size, clients=clients, info=info, valid=valid)


def milder(shape: Shape) -> list[Shape]:
    """Cells of which each is certain, or as good as, to be easier for a search: one that fails there fails here.

    Fewer operations; the same without the stale read; for invalid ones, fewer unknown outcomes; on one key, fewer
    clients. For valid ones more unknown outcomes are no worse always: they make more orders possible.
    """
    change = msgspec.structs.replace
    easier = [change(shape, operations=shape.operations // 10)]
    at = CLIENTS.index(shape.clients)
    if shape.kind != "kv" and at:
        easier.append(change(shape, clients=CLIENTS[at - 1]))
    if not shape.valid:
        easier.append(change(shape, valid=True))
        info = INFO.index(shape.info)
        if info:
            easier.append(change(shape, info=INFO[info - 1]))
    return easier
