"""What a generator is: a pure value that offers the next operation, or "pending", or "done".

A driver calls `op` with a context; the generator returns an operation and the generator that comes after it. The driver
reports completions with `update`. A generator holds no clock, no thread and no random state, so the same value serves
the interpreter and a simulation in tests. The idea is Jepsen's (jepsen-io/generator).

What the driver does:
  - when the invocation's `at_ns` has come, the driver carries it out and continues with the generator returned with it;
  - when `at_ns` lies in the future, the driver keeps its generator, waits until then or until something completes, and
    asks the same generator again;
  - on `PENDING` the driver continues with the generator returned (which may now hold an anchor in time), and asks again
    when an operation completes, at the latest after a few milliseconds;
  - on `None`, the end, the driver does not ask again;
  - the driver calls `update` for every completion (`op` has already returned what the invocation changes).

Randomness: draw k of operation i of worker w depends on seed, w, i and k only, never on the order of completions.
"""

from collections.abc import Container, Sequence
from enum import Enum, auto
from functools import lru_cache
from math import log
from typing import Final, Protocol, TypeVar

import msgspec

from fencepost.harness.history import OpEvent, Value

T = TypeVar("T")

_MASK: Final = (1 << 64) - 1
# Weyl increments: odd, far apart, so that no two of (worker, i, stream, k) share an argument of `_scramble`.
_BY_DRAW: Final = 0x9E3779B97F4A7C15
_BY_WORKER: Final = 0xD1B54A32D192ED03
_BY_OPERATION: Final = 0xABC98388FB8FAC03
_BY_STREAM: Final = 0x8CB92BA72F3D8DD7


class Offer(msgspec.Struct, frozen=True, gc=False):
    """What to do: a function, a key and a value, but not when, by whom or on which node."""

    f: str
    key: str | None = None
    value: Value = None


class Invocation(msgspec.Struct, frozen=True, gc=False):
    """An offer for one free worker, to begin at `at_ns` or later."""

    worker: int
    offer: Offer
    at_ns: int


class Pending(Enum):
    """The type of `PENDING`: nothing now, perhaps later."""

    PENDING = auto()


PENDING: Final = Pending.PENDING


def _scramble(x: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea & Flood 2014): every input bit reaches every output bit."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


@lru_cache(maxsize=64)
def _scrambled_seed(seed: int) -> int:
    return _scramble(seed ^ (seed >> 64))


class Draw:
    """A counter-based stream of random numbers: cheap to make, one for each operation.

    `stream` separates the draws that several combinators make for one operation (what to do, when, by whom).
    """

    __slots__ = ("_counter",)

    def __init__(self, seed: int, worker: int, i: int, stream: int = 0) -> None:
        self._counter = _scrambled_seed(seed) + worker * _BY_WORKER + i * _BY_OPERATION + stream * _BY_STREAM

    def bits(self) -> int:
        """64 random bits."""
        self._counter += _BY_DRAW
        return _scramble(self._counter)

    def random(self) -> float:
        """Uniform in [0, 1)."""
        return (self.bits() >> 11) * 2.0**-53

    def below(self, n: int) -> int:
        """Uniform in 0..n-1, for n of at least 1 (the bias of the multiplication is below n / 2**64)."""
        return (self.bits() * n) >> 64

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def exponential(self, mean: float) -> float:
        return -mean * log(1.0 - self.random())


class Context(msgspec.Struct, frozen=True, gc=False):
    """What a generator may know when it is asked.

    `free` lists the idle workers, the longest idle first, so that using the first spreads operations over the nodes.
    `workers` are all workers that this generator may use. `counts[w]` is the number of operations that worker w has
    begun in this run. `total` is the number of workers of the run (worker = process modulo `total`). `superseded` are
    the workers whose node claimed to lead when it last answered, while another node has claimed it since.
    """

    time_ns: int
    free: tuple[int, ...]
    workers: tuple[int, ...]
    counts: tuple[int, ...]
    total: int
    seed: int
    superseded: frozenset[int] = frozenset()

    def only(self, members: Container[int]) -> "Context":
        """The same moment for these workers only."""
        free = tuple([w for w in self.free if w in members])
        workers = tuple([w for w in self.workers if w in members])
        return Context(self.time_ns, free, workers, self.counts, self.total, self.seed, self.superseded)

    def alone(self, worker: int) -> "Context":
        """The same moment, with `worker` (which is free) as the only free one."""
        if len(self.free) == 1:
            return self
        return Context(self.time_ns, (worker,), self.workers, self.counts, self.total, self.seed, self.superseded)

    def draw(self, worker: int, stream: int = 0) -> Draw:
        """The random numbers for the operation that `worker` would begin now."""
        return Draw(self.seed, worker, self.counts[worker], stream)

    def number(self, worker: int) -> int:
        """A number from 1 on for the operation that `worker` would begin now; no other operation of the run has it."""
        return self.counts[worker] * self.total + worker + 1

    def worker_of(self, event: OpEvent) -> int:
        """The worker of this operation."""
        return event.process % self.total


class Generator(Protocol):
    """An immutable value that offers operations."""

    def op(self, ctx: Context) -> "Step":
        """The next operation for one of `ctx.free` (never empty), and the generator that comes after it."""
        ...

    def update(self, ctx: Context, event: OpEvent) -> "Generator":
        """The generator that comes after this completion."""
        ...


Step = tuple[Invocation | Pending | None, Generator]


class DrawStream:
    """The numbers of the streams of draws; workloads use `OFFER`."""

    OFFER: Final = 0
    MIX: Final = 1
    PACE: Final = 2
    KEY: Final = 3
    SIMULATION: Final = 4
