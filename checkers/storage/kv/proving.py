"""Proofs of what a whole history says of one key: a few answers that leave no state for it
(`checkers.storage.kv.states`).

Such a proof names answers and the number behind which they are looked at. What was acknowledged there, and what is of
unknown outcome, whoever checks the proof takes from the history himself.
"""

from collections.abc import Collection, Sequence
from typing import Final

from fencepost.checkers.storage.kv.acts import Act
from fencepost.checkers.storage.kv.facts import Check, Store
from fencepost.checkers.storage.kv.states import walked
from fencepost.harness.verdict import Proof

#: Walks that a proof may cost on its way to fewer answers.
_WALKS_MAX: Final = 60


def window_of(store: Store, anomaly: str, acts: Sequence[Act]) -> Proof | None:
    """Prove that no state explains the answers `acts`, those of the key up to these, or all of them; None: no proof."""
    key, rows_at_fault = acts[-1].key, {act.row for act in acts}
    known = [a for a in store.keys.get(key, ()) if a.done is not None and _place(a) >= 0]
    named = [act for act in known if act.row in rows_at_fault]
    until = max((_place(act) for act in named), default=-1)
    for chosen in (named, [act for act in known if _place(act) <= until], known):
        rows = {act.row for act in chosen}
        for since in (min((_earliest(act) for act in chosen), default=0) - 1, -1):
            if refutes(store, key, rows, since):
                return _least(store, anomaly, key, rows, since)
    return None


def compares_of(store: Store, head: Act) -> Proof | None:
    """Prove that the compares of a transaction contradict its reply; None: no proof was found."""
    assert head.txn is not None
    if not head.txn.succeeded and len(head.txn.compares) > 1:
        proof = Proof(kind="compares", name="wrong-compare", rows=(head.row,))
        return proof if all_hold(store, head) else None
    at = head.known - head.writes
    for key in dict.fromkeys(compare.key for compare in head.txn.compares):
        known = [a for a in store.keys.get(key, ()) if a.done is not None and 0 <= _place(a) <= at]
        for rows in ({head.row}, {act.row for act in known} | {head.row}):
            for since in (min((_earliest(a) for a in known if a.row in rows), default=at) - 1, -1):
                if refutes(store, key, rows, since):
                    return _least(store, "wrong-compare", key, rows, since)
    return None


def all_hold(store: Store, head: Act) -> bool:
    """Whether all compares of a transaction certainly held: no state of any key is left in which one did not."""
    compares = head.txn.compares if head.txn is not None else ()
    at = head.at or 0
    checks = [Check(head.row, at - head.writes, compare, False) for compare in compares]
    return bool(checks) and all(
        walked(store, c.compare.key, {act.row for act in store.keys.get(c.compare.key, ())}, -1, c).explained is False
        for c in checks
    )


def refutes(store: Store, key: str | None, rows: Collection[int], since: int) -> bool:
    """Whether no state of a key explains these answers."""
    return walked(store, key, rows, since).explained is False


def _least(store: Store, anomaly: str, key: str | None, rows: set[int], since: int) -> Proof:
    """Leave out answers that the proof does not need: halves first, then quarters, then single ones."""
    left, size, walks = sorted(rows), (len(rows) + 1) // 2, 0
    while size and walks < _WALKS_MAX:
        at = 0
        while at < len(left) and walks < _WALKS_MAX:
            fewer = left[:at] + left[at + size :]
            walks += 1
            if refutes(store, key, fewer, since):
                left = fewer
            else:
                at += size
        size //= 2
    later = min((_earliest(act) for act in store.keys.get(key, ()) if act.row in left), default=0) - 1
    if later > since and refutes(store, key, left, later):
        since = later
    return Proof(kind="window", key=key, name=anomaly, rows=tuple(left), since=since if since >= 0 else None)


def _place(act: Act) -> int:
    """Return the number of the state that an answer shows; -1: unknown."""
    return act.at if act.at is not None else act.made if act.made is not None else -1


def _earliest(act: Act) -> int:
    """Return the lowest number of a version that an answer tells."""
    numbers = (act.at, act.made, act.created, None if act.expected is None else _place(act) - 1)
    return min((number for number in numbers if number is not None), default=0)
