"""What the order of the numbers leaves open, decided by every state that the keys in doubt can be in."""

from collections.abc import Sequence
from typing import Final

import msgspec

from checkers.kv.acts import Act
from checkers.kv.breach import Breach, breach_of, named
from checkers.kv.order import Judged, judge
from checkers.kv.replay import refusal
from checkers.kv.states import Placed, Store, Walk, walked

#: Transactions of unknown outcome that are put somewhere, one after the other.
_PINNED_MAX: Final = 20


def decided(found: Judged, acts: Sequence[Act], store: Store) -> Judged:
    """With an order for the keys in doubt, or with what is wrong with one; the same where neither was found.

    What a transaction of unknown outcome did to one key it did to all of its keys: where the way through a key needs
    one, it is put there, and everything is judged anew.
    """
    for key, breach in found.open.items():
        if _walk(store, key).explained is False:
            return msgspec.structs.replace(found, breaches=[breach or _unexplained(store.keys[key])])
    pinned: dict[int, Act] = {}
    tried = found
    while not tried.breaches and len(pinned) <= _PINNED_MAX:
        known = Store(acts, store.dialect, pinned) if pinned else store
        walks = {key: _walk(known, key) for key in tried.open}
        if not all(walk.explained for walk in walks.values()):
            break
        order = [(act, at) for act, at in tried.order if act.done is not None or act.key not in walks]
        used = {*store.owners, *store.told, *(at for act, at in order if act.writes)}
        heads = [step for walk in walks.values() for step in walk.placed if step.act.head is not None]
        if heads:
            ((head, at),) = _places(heads[:1], used)
            pinned[at] = head.whole
            tried = judge(acts, store.dialect, pinned)
            continue
        for walk in walks.values():
            order += _places(walk.placed, used)
        order.sort(key=lambda told: (told[1], not told[0].writes, told[0].invoked))
        if refusal(acts, store.dialect, order) is None:
            return msgspec.structs.replace(tried, doubts=[], open={}, order=order)
        break
    return found


def _walk(store: Store, key: str | None) -> Walk:
    return walked(store, key, {act.row for act in store.keys.get(key, ())}, -1)


def _unexplained(acts: Sequence[Act]) -> Breach:
    told = tuple(act for act in acts if act.done is not None)
    step = f"No choice of the writes of unknown outcome explains all answers about {named(told[-1].key)}."
    return breach_of("non-linearizable", told[-1:], step)


def _places(steps: Sequence[Placed], used: set[int]) -> list[tuple[Act, int]]:
    """Each as late as it can be, in the order of the walk, at a number that nothing else has while there is one."""
    found: list[tuple[Act, int]] = []
    last = 1 << 63
    for step in reversed(steps):
        at = min(step.high, last - 1)
        while at in used and at > step.low:
            at -= 1
        used.add(at)
        found.append((step.act, at))
        last = at
    return found
