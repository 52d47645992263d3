"""Dumb oracles of weak models: every order of commits, every schedule of starts and commits, of few transactions.

They follow the axioms word by word (Biswas & Enea, OOPSLA 2019; Berenson et al., SIGMOD 1995, for snapshots) and share
nothing with the product but the histories.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.checkers.transactions.columns import FAIL, INFO, OK, READ, WRITE
from tests.checkers.transactions.transaction_histories import Op, Txn, wanted

#: Model: what a transaction must have seen, and whether the order of sessions is kept.
LEVELS: Final = {
    "read-committed": ("", False),
    "monotonic-atomic-view": ("view", False),
    "read-atomic": ("atomic", False),
    "causal-cerone": ("causal", False),
    "session-read-committed": ("view", True),
    "session-read-atomic": ("atomic", True),
    "causal": ("causal", True),
}


def kept_by_commits(txns: Sequence[Txn], model: str, *, lists: bool) -> bool:
    """Whether some order of commits keeps `model`."""
    level, sessions = LEVELS[model]
    shown = _shown(txns, lists)
    committed = [t for t, txn in enumerate(txns) if txn.outcome == OK or (txn.outcome == INFO and t in shown)]
    return any(_keeps(txns, order, level, sessions, lists) for order in itertools.permutations(committed))


def _shown(txns: Sequence[Txn], lists: bool) -> set[int]:
    """Transactions of which an ok one read something."""
    read = {
        (op.key, value)
        for txn in txns
        if txn.outcome == OK
        for op in txn.ops
        if op.kind == READ
        for value in wanted(op, lists)
    }
    return {t for t, txn in enumerate(txns) if any(op.kind == WRITE and (op.key, op.value) in read for op in txn.ops)}


def _session_pairs(txns: Sequence[Txn], order: Sequence[int]) -> set[tuple[int, int]]:
    return {
        (a, b)
        for a in order
        for b in order
        if txns[a].process == txns[b].process and txns[a].outcome == OK and txns[a].completed < txns[b].invoked
    }


def _keeps(txns: Sequence[Txn], order: Sequence[int], level: str, sessions: bool, lists: bool) -> bool:
    at = {t: place for place, t in enumerate(order)}
    before = _session_pairs(txns, order) if sessions else set[tuple[int, int]]()
    if any(at[a] > at[b] for a, b in before):
        return False
    #: Per ok transaction: (place of the micro-operation, key, writer or None) of what it read of others.
    reads: dict[int, list[tuple[int, str, int | None]]] = {}
    for t in order:
        reads[t] = []
        for place, op in enumerate(txns[t].ops):
            if op.kind != READ or txns[t].outcome != OK:
                continue
            own = [other.value for other in txns[t].ops[:place] if other.kind == WRITE and other.key == op.key]
            seen = list(wanted(op, lists))
            if not lists and own:
                if seen != own[-1:]:
                    return False
                continue
            if lists and own:
                # Its own append was made upon all that was committed before it.
                held = [o.value for w in order[: at[t]] for o in txns[w].ops if o.kind == WRITE and o.key == op.key]
                if seen != held + own:
                    return False
                seen = held
            found = _writer(txns, order[: at[t]], op, seen, lists)
            if found is False:
                return False
            reads[t].append((place, op.key, found))
    seen_from = {t: {w for _, _, w in reads[t] if w is not None} for t in order}
    for t in order:
        past = _past(t, seen_from, before)
        for place, key, writer in reads[t]:
            if level in ("atomic", "causal") and any(k == key and w != writer for _, k, w in reads[t]):
                return False
            match level:
                case "":
                    must = set[int]()
                case "view":
                    must = {w for p, _, w in reads[t] if p < place and w is not None}
                case "atomic":
                    must = seen_from[t] | {a for a, b in before if b == t}
                case _:
                    must = past
            for other in must - {writer}:
                if any(op.kind == WRITE and op.key == key for op in txns[other].ops) and (
                    writer is None or at[other] > at[writer]
                ):
                    return False
    return True


def _past(t: int, seen_from: dict[int, set[int]], before: set[tuple[int, int]]) -> set[int]:
    found: set[int] = set()
    waiting = [t]
    while waiting:
        now = waiting.pop()
        new = (seen_from[now] | {a for a, b in before if b == now}) - found
        found |= new
        waiting += new
    return found - {t}


def _writer(txns: Sequence[Txn], earlier: Sequence[int], op: Op, seen: list[int], lists: bool) -> int | bool | None:
    """Who wrote what a read shows, None for nothing, False where no earlier transaction left that."""
    held: list[int] = []
    if not seen:
        return None
    for t in earlier:
        own = [other.value for other in txns[t].ops if other.kind == WRITE and other.key == op.key]
        held = [*held, *own] if lists else own[-1:] or held
        if own and held == seen:
            return t
    return False


def kept_by_schedule(txns: Sequence[Txn], *, sessions: bool, realtime: bool, lists: bool) -> bool:
    """Whether some schedule of starts and commits is one of snapshot isolation; for about five transactions."""
    required = frozenset(t for t, txn in enumerate(txns) if txn.outcome == OK)
    shown = _shown(txns, lists)
    usable = [t for t, txn in enumerate(txns) if txn.outcome == OK or (txn.outcome != FAIL and t in shown)]

    def must_follow(t: int) -> Iterator[int]:
        for other in required - {t}:
            late = txns[other].completed < txns[t].invoked
            if late and (realtime or (sessions and txns[other].process == txns[t].process)):
                yield other

    def extend(started: dict[int, frozenset[str]], done: frozenset[int], state: dict[str, tuple[int, ...]]) -> bool:
        if required <= done:
            return True
        for t in usable:
            if t in done:
                continue
            writes = frozenset(op.key for op in txns[t].ops if op.kind == WRITE)
            if t in started:
                if started[t] & writes:
                    continue
                after = dict(state)
                for op in txns[t].ops:
                    if op.kind == WRITE:
                        after[op.key] = (*after.get(op.key, ()), op.value) if lists else (op.value,)
                others = {other: changed | writes for other, changed in started.items() if other != t}
                if extend(others, done | {t}, after):
                    return True
                continue
            may_start = all(other in done for other in must_follow(t)) and _reads(txns[t], state, lists)
            if may_start and extend(started | {t: frozenset()}, done, state):
                return True
        return False

    return extend({}, frozenset(), {})


def _reads(txn: Txn, state: dict[str, tuple[int, ...]], lists: bool) -> bool:
    view = dict(state)
    for op in txn.ops:
        if op.kind == WRITE:
            view[op.key] = (*view.get(op.key, ()), op.value) if lists else (op.value,)
        elif op.kind == READ and txn.outcome == OK and view.get(op.key, ()) != wanted(op, lists):
            return False
    return True


def kept_by_visibility(txns: Sequence[Txn], *, lists: bool) -> bool:
    """Whether some order of commits, and what each transaction sees of it, keep parallel snapshot isolation.

    The axioms of Cerone, Bernardi & Gotsman (CONCUR 2015): what is seen is transitive and comes before in the order; a
    read returns the last version that is seen; of two that write one key, one sees the other. For about four
    transactions.
    """
    shown = _shown(txns, lists)
    committed = [t for t, txn in enumerate(txns) if txn.outcome == OK or (txn.outcome == INFO and t in shown)]
    return any(_sees(txns, order, (), lists) for order in itertools.permutations(committed))


def _sees(txns: Sequence[Txn], order: Sequence[int], seen: tuple[frozenset[int], ...], lists: bool) -> bool:
    """Choose what the next transaction of `order` sees; `seen`: what those before it see."""
    if len(seen) == len(order):
        return True
    t, earlier = order[len(seen)], order[: len(seen)]
    past = dict(zip(earlier, seen, strict=True))
    written = _keys(txns[t])
    must = {other for other in earlier if written & _keys(txns[other])}
    for count in range(len(earlier) + 1):
        for chosen in itertools.combinations(earlier, count):
            now = frozenset(chosen)
            if not must <= now or any(not past[other] <= now for other in now):
                continue
            state: dict[str, tuple[int, ...]] = {}
            for other in (other for other in order if other in now):
                for op in txns[other].ops:
                    if op.kind == WRITE:
                        state[op.key] = (*state.get(op.key, ()), op.value) if lists else (op.value,)
            if _reads(txns[t], state, lists) and _sees(txns, order, (*seen, now), lists):
                return True
    return False


def _keys(txn: Txn) -> set[str]:
    return {op.key for op in txn.ops if op.kind == WRITE}
