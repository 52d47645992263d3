"""Random histories of registers at any size: valid as they are made, or with one read that is provably stale.

Every client invokes, waits, and goes on; an operation takes effect at one moment between its invocation and its return,
so the history is linearizable. An operation of unknown outcome takes effect or not, by a coin.

The stale read comes at nine tenths of its key's operations. Its value is none that the register can hold then: whatever
may have made it returned before another acknowledged write or compare-and-set was invoked, which returned before the
read was invoked. One of the five values can seldom be refuted so where outcomes are unknown; then the value is a sixth
one, which a single acknowledged write made at one tenth.
"""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fencepost.checkers.storage.register_anomalies import CAS, READ, WRITE, Columns

VALUES: Final = 5
RARE: Final = VALUES + 1
CLIENTS_OF_A_KEY: Final = 5
OPERATIONS_OF_A_KEY: Final = 500
#: Mean times between a return and the next invocation, to the effect, and from there to the return.
_THINK, _REACH, _ANSWER = 1 / 3, 1.0, 1.0
_TRIES: Final = 50
_NEVER: Final = np.iinfo(np.int64).max

_Ints = NDArray[np.int64]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """`kind`: cas (one register, five values), register (one, every write unique) or kv (many of the first kind).

    `operations` are those issued; left out are then what failed and reads of unknown outcome. `info`: the share of
    operations whose outcome is unknown.
    """

    kind: str
    operations: int
    clients: int
    info: float
    valid: bool


class Unbendable(Exception):
    """No read of this history can be made provably stale; another seed can."""


def make(shape: Shape, seed: int) -> Columns:
    """The history as columns, rows in the order of invocation, times being places among all events."""
    rng = np.random.default_rng((seed, shape.operations, shape.clients, round(shape.info * 1e6), shape.valid))
    while True:
        try:
            return _make(shape, rng)
        except Unbendable:
            continue


def _make(shape: Shape, rng: np.random.Generator) -> Columns:
    key, invoked, effect, returned = _times(shape, rng)
    n = len(key)
    unknown = rng.random(n) < shape.info
    happens = ~unknown | (rng.random(n) < 0.5)
    if shape.kind == "register":
        f: _Ints = rng.integers(READ, WRITE + 1, n)
        a, b = np.where(f == WRITE, np.arange(1, n + 1), 0), np.zeros(n, dtype=np.int64)
    else:
        f = rng.integers(READ, CAS + 1, n)
        a = np.where(f == READ, 0, rng.integers(1, VALUES + 1, n))
        b = np.where(f == CAS, rng.integers(1, VALUES + 1, n), 0)
    target = int(key[int(0.9 * n)])
    if not shape.valid and shape.kind != "register":
        plain = np.flatnonzero((key == target) & (f == WRITE) & ~unknown)
        at = int(0.1 * np.count_nonzero(key == target))
        later = plain[plain >= np.flatnonzero(key == target)[at]]
        if not len(later):
            raise Unbendable
        a[later[0]] = RARE
    failed = (
        _unique_effects(f, a, effect, happens)
        if shape.kind == "register"
        else _effects(key, f, a, b, effect, unknown, happens)
    )
    kept = ~failed & ~((f == READ) & unknown)
    key, f, a, b, invoked, returned, unknown = (column[kept] for column in (key, f, a, b, invoked, returned, unknown))
    places = _places(invoked, np.where(unknown, np.inf, returned))
    columns = Columns(
        operations=(),
        keys=[str(number) for number in range(int(key.max()) + 1)],
        values=(),
        key=key,
        f=f,
        a=a,
        b=b,
        invoked=places[0],
        returned=np.where(unknown, -1, places[1]),
    )
    if not shape.valid:
        _make_stale(columns, target, rng)
    return columns


def _times(
    shape: Shape, rng: np.random.Generator
) -> tuple[_Ints, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Key, invocation, effect and return of each operation, in the order of invocation."""
    n, clients = shape.operations, shape.clients
    each = -(-n // clients)
    think, reach, answer = (rng.exponential(mean, (clients, each)) for mean in (_THINK, _REACH, _ANSWER))
    ends = np.cumsum(think + reach + answer, axis=1)
    invoked = (ends - answer - reach).ravel()
    order = np.argsort(invoked, kind="stable")[:n]
    effect, returned = (ends - answer).ravel()[order], ends.ravel()[order]
    if shape.kind != "kv":
        return np.zeros(n, dtype=np.int64), invoked[order], effect, returned
    # Five clients work on one key until it is retired; such groups work side by side.
    group = (order // each) // CLIENTS_OF_A_KEY
    groups = -(-clients // CLIENTS_OF_A_KEY)
    key = np.zeros(n, dtype=np.int64)
    for number in range(groups):
        rows = np.flatnonzero(group == number)
        key[rows] = np.arange(len(rows)) // OPERATIONS_OF_A_KEY * groups + number
    _, key = np.unique(key, return_inverse=True)
    return key.astype(np.int64), invoked[order], effect, returned


def _unique_effects(f: _Ints, a: _Ints, effect: NDArray[np.float64], happens: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What each read sees: the last write before it that happened. Nothing fails."""
    order = np.argsort(effect, kind="stable")
    made = np.where((f[order] == WRITE) & happens[order], np.arange(len(order)), -1)
    last = np.maximum.accumulate(made)
    seen = np.where(last < 0, 0, a[order][last])
    a[order] = np.where(f[order] == READ, seen, a[order])
    return np.zeros(len(f), dtype=np.bool_)


def _effects(
    key: _Ints,
    f: _Ints,
    a: _Ints,
    b: _Ints,
    effect: NDArray[np.float64],
    unknown: NDArray[np.bool_],
    happens: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """What each read sees, register by register; and which compare-and-sets are known to have failed."""
    order = np.argsort(effect, kind="stable")
    state = [0] * (int(key.max()) + 1)
    seen, failed = [0] * len(order), [False] * len(order)
    rows = zip(
        key[order].tolist(),
        f[order].tolist(),
        a[order].tolist(),
        b[order].tolist(),
        unknown[order].tolist(),
        happens[order].tolist(),
        strict=True,
    )
    for i, (k, function, first, second, is_unknown, happened) in enumerate(rows):
        if function == READ:
            seen[i] = state[k]
        elif function == WRITE:
            if happened:
                state[k] = first
        elif state[k] != first:
            failed[i] = not is_unknown
        elif happened:
            state[k] = second
    a[order] = np.where(f[order] == READ, np.array(seen), a[order])
    failures = np.zeros(len(order), dtype=np.bool_)
    failures[order] = failed
    return failures


def _places(invoked: NDArray[np.float64], returned: NDArray[np.float64]) -> tuple[_Ints, _Ints]:
    """Times as places from 0; unknown returns are last, and mean nothing."""
    order = np.argsort(np.concatenate((invoked, returned)), kind="stable")
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places[: len(invoked)], places[len(invoked) :]


def _make_stale(columns: Columns, target: int, rng: np.random.Generator) -> None:
    """Let one read of this key see what it cannot have seen; raises Unbendable."""
    rows = np.flatnonzero(columns.key == target)
    f, a, b = columns.f[rows], columns.a[rows], columns.b[rows]
    invoked, returned = columns.invoked[rows], columns.returned[rows]
    ended = np.where(returned < 0, _NEVER, returned)
    makes = f != READ
    made = np.where(f == CAS, b, a)[makes]
    begins, ends = invoked[makes], ended[makes]
    reads = np.flatnonzero(~makes & (np.arange(len(rows)) >= 0.9 * len(rows)))
    ways: tuple[tuple[int, bool], ...] = ((_TRIES, False), (1, True))
    for tries, rare in ways:
        for read in reads[:tries].tolist():
            certain = ends < invoked[read]
            if not certain.any():
                continue
            overwritten = ends < begins[certain].max()
            possible = set(made[~overwritten & (begins < ended[read])].tolist())
            stale = sorted(set(made[overwritten].tolist()) - possible - ({RARE} if not rare else set()))
            if stale:
                columns.a[rows[read]] = stale[int(rng.integers(len(stale)))]
                return
    raise Unbendable
