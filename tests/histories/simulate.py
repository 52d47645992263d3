"""Random histories of one register: valid by construction, then perhaps bent.

A simulated operation is invoked, takes effect at one instant and returns, at three drawn times: so the history is
linearizable. `bend` changes something that may or may not make it invalid; only an oracle can tell.
"""

import random

import msgspec

from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ, WRITE, ProofRow


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a history looks like. `values` 0: every write has a value of its own, and cas compares with the current."""

    operations: int
    clients: int
    values: int
    info: float = 0.0


def valid_history(rng: random.Random, shape: Shape) -> list[ProofRow]:
    """Rows in the order of invocation, times from 0 without gaps; operations that failed are left out."""
    clock = [0.0] * shape.clients
    spans = []
    for _ in range(shape.operations):
        client = min(range(shape.clients), key=clock.__getitem__)
        invoked = clock[client] + rng.expovariate(3)
        effect = invoked + rng.expovariate(1)
        clock[client] = effect + rng.expovariate(1)
        spans.append((effect, invoked, clock[client]))
    state, fresh = 0, 0
    rows = []
    for _, invoked, returned in sorted(spans):
        f = rng.choice((READ, WRITE, CAS))
        fresh += 1
        new = 1 + rng.randrange(shape.values) if shape.values else fresh
        old = state if not shape.values or rng.random() < 0.6 else rng.randrange(shape.values + 1)
        unknown = rng.random() < shape.info
        happens = (not unknown or rng.random() < 0.5) and not (f == CAS and old != state)
        if (f == READ and unknown) or (f == CAS and old != state and not unknown):
            continue
        a, b = {READ: (state, 0), WRITE: (new, 0), CAS: (old, new)}[f]
        rows.append(ProofRow(f, a, b, invoked, NEVER if unknown else returned))
        if happens and f != READ:
            state = new
    return in_sequence(rows)


def in_sequence(rows: list[ProofRow]) -> list[ProofRow]:
    """The same rows in the order of invocation, their times replaced by places in one sequence."""
    times = sorted({time for row in rows for time in (row.invoked, row.returned) if time != NEVER})
    place: dict[float, float] = {time: i for i, time in enumerate(times)} | {NEVER: NEVER}
    moved = (ProofRow(row.f, row.a, row.b, place[row.invoked], place[row.returned]) for row in rows)
    return sorted(moved, key=lambda row: row.invoked)


def bend(rng: random.Random, rows: list[ProofRow], values: int) -> list[ProofRow]:
    """Change one row: what it saw or made, its outcome, or when it was invoked or returned."""
    bent = list(rows)
    if not bent:
        return bent
    at = rng.randrange(len(bent))
    row, other = bent[at], rng.choice(bent)
    match rng.randrange(5):
        case 0:
            row = ProofRow(row.f, rng.randrange((values or len(bent)) + 2), row.b, row.invoked, row.returned)
        case 1:
            row = ProofRow(row.f, other.a, row.b, row.invoked, row.returned)
        case 2 if row.f != READ:
            row = ProofRow(row.f, row.a, row.b, row.invoked, NEVER)
        case 3 if row.returned != NEVER:
            row = ProofRow(row.f, row.a, row.b, row.returned - 0.5, row.returned)
        case _ if row.returned != NEVER:
            row = ProofRow(row.f, row.a, row.b, row.invoked, row.invoked + 0.5)
        case _:
            pass
    bent[at] = row
    return in_sequence(bent)
