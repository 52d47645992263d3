"""The verdict on a small history of a store with numbered writes, by trying everything: slow and obvious.

Every write of unknown outcome is put at every free position or left out, every read whose reply does not say where it
stands at every position, every key begins with everything that could have been there; then the rules are looked at one
by one, for each pair of operations.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import msgspec

from fencepost.checkers.storage.kv.acts import Act, Compare, Condition, Dialect, Kind, Target

ENDLESS = 1 << 60


class State(NamedTuple):
    """What a key holds; None: nothing."""

    made: int
    value: int
    created: int
    version: int


def explained(acts: Sequence[Act], dialect: Dialect) -> bool:
    """Whether any choice explains all answers."""
    answered = [act for act in acts if act.done is not None]
    begun = min((a.known - a.writes for a in answered if a.current and a.kind is not Kind.SYNC), default=ENDLESS)
    if begun <= dialect.empty:
        begun = 0
    highest = max([a.reached for a in answered], default=0)
    unknown = [act for act in acts if act.done is None]
    floating = [act for act in answered if act.kind is Kind.READ and act.at is None]
    fixed = [(act, act.known) for act in answered if act.kind is not Kind.SYNC and act.at is not None]
    places = range(highest + 2)
    for chosen in product([None, *range(begun + 1, highest + 2)], repeat=len(unknown)):
        placed = [(act, at) for act, at in zip(unknown, chosen, strict=True) if at is not None]
        taken = [at for act, at in (*fixed, *placed) if act.writes]
        if len(set(taken)) != len(taken) or len({act.row for act, _ in placed}) != len(placed):
            continue
        for floats in product(places, repeat=len(floating)):
            told = [*fixed, *placed, *zip(floating, floats, strict=True)]
            if _in_time(told, acts, dialect) and any(
                all(_key_explained(own, begun, dialect.first_version) for own in keys.values())
                for keys in _by_key(told)
            ):
                return True
    return False


class Look(NamedTuple):
    """A compare of a Txn, and whether it held."""

    compare: Compare
    held: bool
    writes: bool = False


def _by_key(told: Sequence[tuple[Act, int]]) -> Iterator[dict[str | None, list[tuple[Any, int]]]]:
    """What was done to each key, for every choice of which compare it was that did not hold."""
    keys: dict[str | None, list[tuple[Any, int]]] = {}
    failed: list[tuple[tuple[Compare, ...], int]] = []
    for act, at in told:
        if act.txn is None:
            keys.setdefault(act.key, []).append((act, at))
            continue
        for part in act.txn.parts:
            plain = msgspec.structs.replace(part, expected=None)
            keys.setdefault(part.key, []).append((plain, at if part.at is None else part.at))
        before = at - act.writes
        if act.txn.succeeded:
            for compare in act.txn.compares:
                keys.setdefault(compare.key, []).append((Look(compare, True), before))
        else:
            failed.append((act.txn.compares, before))
    for chosen in product(*(compares for compares, _ in failed)):
        found = {key: list(own) for key, own in keys.items()}
        for compare, (_, before) in zip(chosen, failed, strict=True):
            found.setdefault(compare.key, []).append((Look(compare, False), before))
        yield found


def _in_time(told: Sequence[tuple[Act, int]], acts: Sequence[Act], dialect: Dialect) -> bool:
    for (a, p), (b, q) in product(told, repeat=2):
        if a is b or a.done is None or a.done > b.invoked:
            continue
        same_session = not dialect.current and a.session == b.session
        if (b.current or same_session) and (q < p or (b.writes and q <= p)):
            return False
    for sync in acts:
        if sync.kind is Kind.SYNC and sync.done is not None:
            before = [p for a, p in told if a.writes and a.done is not None and a.done < sync.invoked]
            after = [q for b, q in told if b.kind is Kind.READ and b.session == sync.session and sync.done < b.invoked]
            if before and after and min(after) < max(before):
                return False
    for b, q in told:
        if b.fresh and any(a.writes and a.done is not None and a.done < b.invoked and p > q for a, p in told):
            return False
    return True


def _key_explained(everything: Sequence[tuple[Any, int]], begun: int, first: int) -> bool:
    looks = [(look, at) for look, at in everything if isinstance(look, Look)]
    told = [(act, at) for act, at in everything if not isinstance(act, Look)]
    told = sorted(told, key=lambda t: (t[1], not t[0].writes))
    early = [(act, at) for act, at in told if at < begun and not act.writes]
    for (a, p), (b, q) in combinations(early, 2):
        if a.made is None and b.made is not None and not _sensible(b, q, first, p + 1):
            return False
        if (ca := _creation(a, first)) and (cb := _creation(b, first)) and cb != ca and cb <= p:
            return False
        if p == q and (a.made, a.value) != (b.made, b.value):
            return False
        if b.made is not None and b.made != a.made and b.made <= p:
            return False
        if a.made is not None and a.made == b.made and not _agree(a, b, first):
            return False
        if a.made == b.made and a.made is not None:
            between = [c for c, r in early if p <= r <= q]
            if any(c.made != a.made for c in between):
                return False
    if not all(_sensible(act, at, first) for act, at in told):
        return False
    late = [(act, at) for act, at in told if at >= begun or act.writes]
    # At one position a write comes first, then what looks at it.
    mixed = sorted([*late, *looks], key=lambda t: (t[1], not t[0].writes))
    return any(_runs(state, mixed, first) for state in _beginnings(early, late, begun, first, looks))


def _creation(act: Act, first: int) -> int | None:
    """Where a read says that the key was created, by that number or as its first version."""
    return act.made if act.created is None and act.version == first else act.created


def _agree(a: Act, b: Act, first: int) -> bool:
    """Whether two reads can show the same version."""
    pairs = ((a.value, b.value), (a.created, b.created), (a.version, b.version))
    created = b.created if a.created is None else a.created
    version = b.version if a.version is None else a.version
    if created is not None and version is not None and (created == a.made) != (version == first):
        return False
    return all(x is None or y is None or x == y for x, y in pairs)


def _sensible(act: Act, at: int, first: int, since: int = 1) -> bool:
    """The numbers of one reply can be of one version, of a key created no earlier than `since`."""
    made = at if act.writes else act.made
    if act.made is not None and act.made > at:
        return False
    if act.children is not None and not (act.created or 0) <= act.children <= at:
        return False
    if act.created is not None and made is not None:
        if not since <= act.created <= made:
            return False
        if act.version is not None and (act.created == made) != (act.version == first):
            return False
    if act.version is None or made is None:
        return True
    return first <= act.version <= first + made - (act.created or since)


def _beginnings(
    early: Sequence[tuple[Act, int]],
    late: Sequence[tuple[Act, int]],
    begun: int,
    first: int,
    looks: Sequence[tuple[Look, int]] = (),
) -> Iterator[State | None]:
    """What may have been there at the beginning."""
    yield None
    if begun >= ENDLESS:
        begun = max((at for _, at in (*early, *late)), default=0)
    values = {act.value for act, _ in (*early, *late) if act.value >= 0}
    values |= {act.expected.number for act, _ in late if act.expected and act.expected.condition is Condition.VALUE}
    values |= {look.compare.number for look, _ in looks if look.compare.target is Target.VALUE}
    values.add(-2)
    for made, value, version in product(range(1, begun + 1), values, range(first, first + 9)):
        for created in range(1, made + 1):
            if (created == made) != (version == first) or version - first > made - created:
                continue
            ok = True
            for act, at in early:
                if act.made == made:
                    shown = (act.value, act.created or created, act.version if act.version is not None else version)
                    ok = ok and shown == (value, created, version)
                elif made <= at or (created <= at and not _before(act, created)):
                    ok = False
            if ok:
                yield State(made, value, created, version)


def _before(act: Act, created: int) -> bool:
    """Whether a read may have shown an earlier version of the same creation."""
    return act.made is not None and act.made >= created and act.created in (None, created)


def _held(state: State | None, compare: Compare) -> bool:
    names = {Target.MADE: "made", Target.CREATED: "created", Target.VERSION: "version", Target.VALUE: "value"}
    if state is None:
        return compare.holds(None if compare.target is Target.VALUE else 0)
    return compare.holds(getattr(state, names[compare.target]))


def _runs(state: State | None, late: Sequence[tuple[Any, int]], first: int) -> bool:
    for act, at in late:
        if isinstance(act, Look):
            if _held(state, act.compare) != act.held:
                return False
            continue
        if act.expected is not None:
            number = act.expected.number
            match act.expected.condition:
                case Condition.ABSENT:
                    holds = state is None
                case Condition.PRESENT:
                    holds = state is not None
                case Condition.MADE:
                    holds = state is not None and state.made == number
                case Condition.VALUE:
                    holds = state is not None and state.value == number
                case Condition.VERSION:
                    holds = state is not None and state.version == number
            if not holds:
                return False
        if act.kind is Kind.DELETE:
            if state is None and not act.may_miss:
                return False
            state = None
            continue
        if act.kind is Kind.PUT:
            created, version = (at, first) if state is None else (state.created, state.version + 1)
            state = State(at, act.value, created, version)
        elif (act.made is None) != (state is None) or (state and (act.made, act.value) != (state.made, state.value)):
            return False
        if state is not None and act.created not in (None, state.created):
            return False
        if state is not None and act.version not in (None, state.version):
            return False
    return True
