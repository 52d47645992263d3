"""What the order of the numbers leaves open, decided by every state that the keys in doubt can be in."""

from collections.abc import Sequence

import msgspec

from checkers.kv.acts import Act
from checkers.kv.breach import Breach, breach_of, named
from checkers.kv.order import Judged
from checkers.kv.replay import refusal
from checkers.kv.states import Placed, Store, walked


def decided(found: Judged, acts: Sequence[Act], store: Store) -> Judged:
    """With an order for the keys in doubt, or with what is wrong with one; the same where neither was found."""
    placed: dict[str | None, tuple[Placed, ...]] = {}
    for key, breach in found.open.items():
        rows = {act.row for act in store.keys[key]}
        walk = walked(store, key, rows, -1)
        if walk.explained is False:
            return msgspec.structs.replace(found, breaches=[breach or _unexplained(store.keys[key])], order=[])
        if walk.explained is None:
            return found
        placed[key] = walk.placed
    order = [(act, at) for act, at in found.order if act.done is not None or act.key not in placed]
    used = {*store.owners, *store.told, *(at for act, at in order if act.writes)}
    for steps in placed.values():
        order += _places(steps, used)
    order.sort(key=lambda told: (told[1], not told[0].writes, told[0].invoked))
    if refusal(acts, store.dialect, order) is not None:
        return found
    return msgspec.structs.replace(found, doubts=[], open={}, order=order)


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
