"""Proofs of what a whole history says of one key: a few answers that leave no state for it (`checkers.kv.states`).

Such a proof names answers and the number behind which they are looked at. What was acknowledged there, and what is of
unknown outcome, whoever checks the proof takes from the history himself.
"""

from collections.abc import Collection, Sequence
from typing import Final

from checkers.kv.acts import Act
from checkers.kv.states import Store, walked
from harness.verdict import Proof

#: Walks that a proof may cost on its way to fewer answers.
_WALKS_MAX: Final = 60


def window_of(store: Store, anomaly: str, acts: Sequence[Act]) -> Proof | None:
    """A proof that no state is left by the answers `acts`, by all of the key up to these, or by all; None: by none."""
    key = acts[-1].key
    known = [a for a in store.keys.get(key, ()) if a.done is not None and _place(a) >= 0]
    named = [act for act in known if act in acts]
    until = max((_place(act) for act in named), default=-1)
    for chosen in (named, [act for act in known if _place(act) <= until], known):
        rows = {act.row for act in chosen}
        for since in (min((_earliest(act) for act in chosen), default=0) - 1, -1):
            if refutes(store, key, rows, since):
                return _least(store, anomaly, key, rows, since)
    return None


def refutes(store: Store, key: str | None, rows: Collection[int], since: int) -> bool:
    return walked(store, key, rows, since).explained is False


def _least(store: Store, anomaly: str, key: str | None, rows: set[int], since: int) -> Proof:
    """With fewer answers, as far as they can be had quickly: halves are left out, then quarters, then single ones."""
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
    by_row = {act.row: act for act in store.keys[key]}
    later = min((_earliest(by_row[row]) for row in left), default=0) - 1
    if later > since and refutes(store, key, left, later):
        since = later
    return Proof(kind="window", key=key, name=anomaly, rows=tuple(left), since=since if since >= 0 else None)


def _place(act: Act) -> int:
    """Where an answer is true."""
    return act.at if act.at is not None else act.made if act.made is not None else -1


def _earliest(act: Act) -> int:
    """The lowest number of a version that it tells of."""
    told = (act.at, act.made, act.created, None if act.expected is None else _place(act) - 1)
    return min((number for number in told if number is not None), default=0)
