"""What the order of the numbers leaves open, decided by every state that the keys in doubt can be in."""

from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.storage.kv.acts import Act
from fencepost.checkers.storage.kv.breach import Breach, breach_of, named
from fencepost.checkers.storage.kv.facts import Store
from fencepost.checkers.storage.kv.order import Judged, judge
from fencepost.checkers.storage.kv.replay import refusal, unheld
from fencepost.checkers.storage.kv.states import Placed, Walk, walked

#: Rounds in which writes of unknown outcome are put somewhere.
_ROUNDS_MAX: Final = 20
#: Versions that several transactions can have made, of which each is tried in turn; with more of them none is.
_CHOICES_MAX: Final = 3


def decided(judgement: Judged, acts: Sequence[Act], store: Store) -> Judged:
    """Decide the keys in doubt: add an order, or what is wrong with a key; return the same where neither is found.

    Writes of unknown outcome that the way through a key needs are put there, and everything is judged again: what a
    transaction did to one key it did to all of its keys, and a read that does not say where it stands may stand
    elsewhere.
    """
    for key, breach in judgement.open.items():
        if _walk(store, key).explained is False:
            return msgspec.structs.replace(judgement, breaches=[breach or _unexplained(store.keys[key])])
    few = store.choices if len(store.choices) <= _CHOICES_MAX else {}
    others = [{at: head} for at, heads in few.items() for head in heads[: _CHOICES_MAX + 1]]
    for first in ({}, *others):
        tried = _tried(judgement, acts, store, first)
        if tried is not None:
            return tried
    return judgement


def _tried(judgement: Judged, acts: Sequence[Act], store: Store, first: dict[int, Act]) -> Judged | None:
    """Find an order that has the writes of `first` at their numbers; None: none was found."""
    pinned = dict(first)
    tried = judgement if not first else _pinned(acts, store, pinned)
    for _ in range(_ROUNDS_MAX):
        if not tried.doubts:
            return tried
        known = Store(acts, store.dialect, pinned)
        walks = [_walk(known, key) for key in tried.open]
        used = {*store.owners, *store.told, *pinned, *(at for act, at in tried.order if act.done is None)}
        steps = [(act.whole, at) for walk in walks for act, at in _places(walk.placed, used)]
        # One of a transaction's keys is enough at a time.
        lowest = {act.row: at for act, at in reversed(steps)}
        pinned |= {at: act for act, at in steps if lowest[act.row] == at}
        if not steps or not all(walk.explained for walk in walks):
            return None
        tried = _pinned(acts, store, pinned)
    return None


def _pinned(acts: Sequence[Act], store: Store, pinned: dict[int, Act]) -> Judged:
    tried = judge(acts, store.dialect, pinned)
    tried = in_doubt(tried) if tried.breaches else tried
    return tried if tried.doubts else unsettled(tried, acts, store)


def unsettled(judgement: Judged, acts: Sequence[Act], store: Store) -> Judged:
    """Put the keys that compares ask about in doubt where the order cannot be carried out; else return the same."""
    if refusal(acts, store.dialect, judgement.order) is None:
        return judgement
    heads = unheld(acts, store.dialect, judgement.order)
    keys = {c.key: None for head in heads for c in (head.txn.compares if head.txn is not None else ())}
    doubt = "it is open where what no reply places took effect, or what was there at first"
    return msgspec.structs.replace(judgement, doubts=[doubt], open=dict(keys))


def in_doubt(judgement: Judged) -> Judged:
    """Turn breaches without a proof into doubts about their keys."""
    doubts = [f"it is open whether there was a {breach.anomaly}" for breach in judgement.breaches]
    keys = {breach.acts[-1].key: breach for breach in judgement.breaches}
    return msgspec.structs.replace(judgement, breaches=[], doubts=doubts, open=keys)


def _walk(store: Store, key: str | None) -> Walk:
    rows = {entry.row for entry in (*store.keys.get(key, ()), *store.checks.get(key, ()))}
    return walked(store, key, rows, -1)


def _unexplained(acts: Sequence[Act]) -> Breach:
    answers = tuple(act for act in acts if act.done is not None)
    step = f"No choice of the writes of unknown outcome explains all answers about {named(answers[-1].key)}."
    return breach_of("non-linearizable", answers[-1:], step)


def _places(steps: Sequence[Placed], used: set[int]) -> list[tuple[Act, int]]:
    """Place each write as late as it can be, in the order of the walk, at a free number if there is one."""
    placements: list[tuple[Act, int]] = []
    last = 1 << 63
    for step in reversed(steps):
        at = min(step.high, last - 1)
        while at in used and at > step.low:
            at -= 1
        used.add(at)
        placements.append((step.act, at))
        last = at
    return placements
