"""One key: every state it can be in, number after number, whatever the writes of unknown outcome did.

From the operations alone, apart from what judges them: acknowledged writes stand at their numbers, each answer narrows
the states, and where no state is left no order explains the answers. What is not known of a state is a range, so that
states are too many rather than too few: nothing is refuted that could be.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from fencepost.checkers.storage.kv.acts import ENDLESS, Act, Condition, Expected, Kind, Target
from fencepost.checkers.storage.kv.facts import Check, Store

#: States of one walk, after which it gives up.
STATES_MAX: Final = 20_000


class State(NamedTuple):
    """What a key may hold: ranges of numbers, both ends included; `value` None is any. `made` is 0 where nothing is.

    There are at most as many versions as numbers from the creation to `most`.
    """

    made: tuple[int, int]
    created: tuple[int, int]
    version: tuple[int, int]
    value: int | None
    most: int


_NOTHING: Final = State((0, 0), (0, 0), (0, 0), None, 0)


class Placed(NamedTuple):
    """A write of unknown outcome and the numbers among which it took effect."""

    act: Act
    low: int
    high: int


class Walk(NamedTuple):
    """`explained`: None if it was given up. `placed` then explains the key, in order, if nothing else stands there."""

    explained: bool | None
    placed: tuple[Placed, ...] = ()


class _Node(NamedTuple):
    """A state, how many of each group of writes of unknown outcome were spent on it, and how it came about."""

    state: State
    spent: tuple[int, ...]
    before: "_Node | None" = None
    by: "tuple[int, int, int] | None" = None


class _Group(NamedTuple):
    """Writes of unknown outcome that do the same as far as anybody looks, by how far the store had come before each."""

    acts: tuple[Act, ...]
    floors: tuple[int, ...]

    @property
    def model(self) -> Act:
        return self.acts[0]


class _Event(NamedTuple):
    """What is known to stand at a number: a write (`act`, or any of unknown outcome), or an answer about the state."""

    at: int
    #: A write before the answers from its state.
    rank: int
    act: Act | None
    value: int | None = None
    creates: bool = False
    check: Check | None = None


def walked(store: Store, key: str | None, reads: Collection[int], since: int, check: Check | None = None) -> Walk:
    """Decide whether any states of `key` explain its acknowledged writes behind `since`, and the answers `reads`.

    `since` below 0 is the beginning of the history; else any state can be there at first. Nothing counts beyond the
    last of the rows in `reads`, and of `check`, a compare to explain besides. Undecided after too many states.
    """
    return _Walk(store, key, reads, since, check).walk()


class _Walk:
    """The search over the states of one key. Size: the steps of one search, which share its frontier."""

    def __init__(self, store: Store, key: str | None, reads: Collection[int], since: int, also: Check | None) -> None:
        self._store, self._since = store, since
        self._first = store.dialect.first_version
        self._used_numbers = store.used_numbers(key)
        self._met = 0
        acts = store.keys.get(key, [])
        named = set(reads)
        named_acts = [a for a in acts if a.done is not None and a.row in named]
        checks = [check for check in store.checks.get(key, ()) if check.row in named]
        checks += [] if also is None else [also]
        until = max([self._place(a) for a in named_acts] + [check.at for check in checks], default=-1)
        checks = [check for check in checks if check.at >= max(since, 0)]
        asked_too = [*checks, *(check for a in acts if a.done is None for check in _checks_of(a))]
        answers = [a for a in named_acts if a.kind is Kind.READ and self._place(a) >= max(since, 0)]
        writes = [a for a in acts if a.writes and a.done is not None and since < a.known <= until]
        sure = {at: part for at, part in store.sure_of(key) if since < at <= until}
        own = {a.known for a in writes} | set(sure)
        events = [_Event(a.known, 0, a) for a in writes] + [_Event(self._place(a), 2, a) for a in answers]
        events += [_Event(at, 0, part) for at, part in sure.items()]
        events += [_Event(check.at, 2, None, check=check) for check in checks]
        events += self._marks([*writes, *answers], own)
        self._events = sorted(events, key=lambda e: e[:2])
        conditions = [a.expected for a in acts if a.expected is not None and (a.done is None or a in writes)]
        #: Versions and creations are of no interest where nobody tells them.
        self._counts = any(a.version is not None for a in (*writes, *answers)) or any(
            e.condition is Condition.VERSION for e in conditions
        )
        self._counts |= any(c.compare.target in (Target.CREATED, Target.VERSION) for c in asked_too)
        values = {c.compare.number for c in asked_too if c.compare.target is Target.VALUE}
        values |= {a.value for a in answers} | {e.number for e in conditions if e.condition is Condition.VALUE}
        spent = {part.row for _, part in store.sure_of(key)}
        self._groups = self._grouped([a for a in acts if a.done is None and a.row not in spent], values)

    def _place(self, act: Act) -> int:
        """Return a number at which an answer is certainly true: its own, else that of the version that it shows."""
        return act.at if act.at is not None else act.made if act.made is not None else -1

    def _marks(self, answers: Sequence[Act], own: set[int]) -> Iterator[_Event]:
        """Versions that answers tell of: somebody made them, and those that are creations found nothing."""
        shown: dict[int, int | None] = {}
        created: set[int] = set()
        for act in answers:
            made = act.at if act.writes else act.made
            if act.kind is Kind.READ and act.made is not None and shown.get(act.made) is None:
                shown[act.made] = act.shown
            if act.expected is not None and act.expected.condition is Condition.MADE:
                shown.setdefault(act.expected.number, None)
            creation = made if act.created is None and act.version == self._first else act.created
            if creation is not None:
                shown.setdefault(creation, None)
                created.add(creation)
        for at, value in shown.items():
            if at > max(self._since, 0):
                if at not in own:
                    yield _Event(at, 0, None, value, at in created)
                elif at in created:
                    yield _Event(at, 1, None, None, True)

    def _grouped(self, unknown: Sequence[Act], values: set[int]) -> list[_Group]:
        members_of: dict[tuple[Kind, bool, int, Expected | None, tuple[Check, ...]], list[tuple[int, int, Act]]] = {}
        for act in unknown:
            value = act.value if act.value in values else -1
            entry = self._store.floor(act), act.invoked, act
            members_of.setdefault((act.kind, act.may_miss, value, act.expected, _checks_of(act)), []).append(entry)
        groups = [sorted(members, key=lambda m: m[:2]) for members in members_of.values()]
        return [_Group(tuple(a for _, _, a in g), tuple(floor for floor, _, _ in g)) for g in groups]

    # The walk

    def walk(self) -> Walk:
        spent = (0,) * len(self._groups)
        begin = [_Node(_NOTHING, spent)]
        if self._since > 0:
            here = (1, self._since)
            begin.append(_Node(State(here, here, (self._first, ENDLESS), None, self._since), spent))
        # Depth first, and with the fewest writes of unknown outcome first, since most answers need none.
        paths: list[Iterator[_Node]] = [iter(begin)]
        met: set[tuple[int, State, tuple[int, ...]]] = set()
        while paths and self._met <= STATES_MAX:
            node = next(paths[-1], None)
            if node is None:
                paths.pop()
                continue
            passed = len(paths) - 1
            if passed == len(self._events):
                return Walk(True, self._placed(node))
            if (passed, node.state, node.spent) not in met:
                met.add((passed, node.state, node.spent))
                self._met += 1
                paths.append(self._passed(node, passed))
        return Walk(None if self._met > STATES_MAX else False)

    def _passed(self, node: _Node, i: int) -> Iterator[_Node]:
        """The states behind one more event."""
        event = self._events[i]
        last = self._events[i - 1].at if i else max(self._since, 0)
        # An answer at a number shows what was written there, too.
        for before in self._between(node, last, event.at - (event.rank == 0)):
            yield from self._after(before, event)

    def _between(self, node: _Node, last: int, high: int) -> Iterator[_Node]:
        """The states at `high`, if nothing of this walk stands between that and `last`."""
        begun = self._store.begun
        nodes: Iterator[_Node] = iter((node,))
        if last < begun and last < high:
            nodes = self._unrecorded(node, last + 1, min(high, begun))
        low = max(last, begun) + 1
        i, end = bisect_left(self._used_numbers, low), bisect_left(self._used_numbers, high + 1)
        room = high - low + 1 - (end - i)
        while room > 0 and end > i and self._used_numbers[end - 1] == high:
            end, high = end - 1, high - 1
        for start in nodes:
            yield from self._spread(start, room, low, high)

    def _spread(self, node: _Node, room: int, low: int, high: int) -> Iterator[_Node]:
        """Yield the states after up to `room` writes of unknown outcome at numbers from `low` to `high`."""
        yield node
        known = {(node.state, node.spent)}
        waiting = deque([(node, 0)])
        while waiting and self._met <= STATES_MAX:
            node, used = waiting.popleft()
            for i in range(len(self._groups)) if used < room else ():
                after = self._spend(node, i, low, high)
                if after is not None and (after.state, after.spent) not in known:
                    self._met += 1
                    known.add((after.state, after.spent))
                    waiting.append((after, used + 1))
                    yield after

    def _spend(self, node: _Node, group: int, low: int, high: int) -> _Node | None:
        """Return the state after one more write of a group took effect at one of these numbers."""
        floors, spent = self._groups[group].floors, node.spent[group]
        if spent >= bisect_left(floors, high):
            return None
        act = self._groups[group].model
        low = max(low, floors[0] + 1)
        state: State | None = node.state
        for check in _checks_of(act):
            state = None if state is None else self._checked(state, check)
        state = None if state is None else self._written(state, act, (low, high), act.value)
        if state is None:
            return None
        more = (*node.spent[:group], spent + 1, *node.spent[group + 1 :])
        return _Node(state, more, node, (group, low, high))

    def _unrecorded(self, node: _Node, low: int, high: int) -> Iterator[_Node]:
        """What can be there where writes may be missing from the history."""
        state, here = node.state, (low, high)
        yield node
        if state != _NOTHING:
            yield node._replace(state=_NOTHING)
            more = (state.version[0] + 1, ENDLESS)
            yield node._replace(state=State(here, state.created, more, None, high))
        yield node._replace(state=State(here, here, (self._first, ENDLESS), None, high))

    def _after(self, node: _Node, event: _Event) -> Iterator[_Node]:
        act, at = event.act, event.at
        if act is None and event.rank == 0:
            for maker in self._made(node, at):
                state = self._narrowed(maker.state, value=event.value, created=at if event.creates else None)
                if state is not None:
                    yield maker._replace(state=state)
            return
        if event.check is not None:
            state = self._checked(node.state, event.check)
        elif act is None:
            state = self._narrowed(node.state, created=at)
        elif act.writes:
            state = self._written(node.state, act, (at, at), act.value)
            if state is not None and act.kind is Kind.PUT:
                state = self._narrowed(state, created=act.created, version=act.version)
        elif act.made is None:
            state = node.state if node.state == _NOTHING else None
        else:
            state = self._narrowed(node.state, made=act.made, value=act.shown, created=act.created, version=act.version)
        if state is not None:
            yield node._replace(state=state)

    def _made(self, node: _Node, at: int) -> Iterator[_Node]:
        """Yield the states after a write without an answer made a version at this number."""
        if at <= self._store.begun:
            yield node._replace(state=State((at, at), (at, at), (self._first, self._first), None, at))
            if node.state != _NOTHING:
                yield node._replace(state=self._put(node.state, (at, at), None))
        elif at not in self._store.owners:
            puts = (i for i, group in enumerate(self._groups) if group.model.kind is Kind.PUT)
            yield from (after for i in puts if (after := self._spend(node, i, at, at)) is not None)

    def _written(self, state: State, act: Act, at: tuple[int, int], value: int | None) -> State | None:
        """The state behind a write, if what it compares with can be there."""
        if act.expected is not None:
            number = act.expected.number
            match act.expected.condition:
                case Condition.ABSENT | Condition.PRESENT as needed:
                    narrowed = state if (state == _NOTHING) == (needed is Condition.ABSENT) else None
                case Condition.MADE:
                    narrowed = self._narrowed(state, made=number)
                case Condition.VALUE:
                    narrowed = self._narrowed(state, value=number)
                case Condition.VERSION:
                    narrowed = self._narrowed(state, version=number)
            if narrowed is None:
                return None
            state = narrowed
        if act.kind is Kind.PUT:
            return self._put(state, at, value)
        return None if state == _NOTHING and not act.may_miss else _NOTHING

    def _checked(self, state: State, check: Check) -> State | None:
        """What is left of a state by a compare."""
        target, result, number = check.compare.target, check.compare.result, check.compare.number
        if state == _NOTHING:
            return state if check.compare.holds(None if target is Target.VALUE else 0) == check.held else None
        if not check.held:
            result = {"=": "!=", "!=": "=", "<": ">=", ">": "<="}[result]
        if target is Target.VALUE:
            if result == "=":
                return self._narrowed(state, value=number)
            return None if state.value == number else state
        low, high = {Target.MADE: state.made, Target.CREATED: state.created, Target.VERSION: state.version}[target]
        match result:
            case "=":
                low, high = max(low, number), min(high, number)
            case "!=":
                low, high = low + (low == number), high - (high == number)
            case "<" | "<=":
                high = min(high, number - (result == "<"))
            case _:
                low = max(low, number + (result == ">"))
        match target:
            case Target.MADE:
                state = state._replace(made=(low, high))
            case Target.CREATED:
                state = state._replace(created=(low, high))
            case Target.VERSION:
                state = state._replace(version=(low, high))
        return self._narrowed(state)

    def _put(self, state: State, at: tuple[int, int], value: int | None) -> State:
        first = self._first
        if not self._counts:
            return State(at, at if state == _NOTHING else state.created, (first, ENDLESS), value, at[1])
        if state == _NOTHING:
            return State(at, at, (first, first), value, at[1])
        low, high = state.version
        return State(at, state.created, (low + 1, min(high + 1, ENDLESS)), value, min(state.most + 1, at[1]))

    def _narrowed(
        self,
        state: State,
        *,
        made: int | None = None,
        value: int | None = None,
        created: int | None = None,
        version: int | None = None,
    ) -> State | None:
        """What is left of a state once this is known of it."""
        if state == _NOTHING or (value is not None and state.value not in (None, value)):
            return None
        mades = _met(state.made, made)
        creations = _met(state.created, created)
        versions = _met(state.version, version)
        most = min(state.most, mades[1])
        if self._counts:
            # The first version is the creation, every later one is behind it.
            if versions[0] > self._first:
                creations = creations[0], min(creations[1], mades[1] - 1)
            elif versions == (self._first, self._first):
                mades = creations = max(mades[0], creations[0]), min(mades[1], creations[1])
            if creations[1] < mades[0]:
                versions = max(versions[0], self._first + 1), versions[1]
            elif creations == mades and creations[0] == creations[1]:
                versions = versions[0], min(versions[1], self._first)
            creations = creations[0], min(creations[1], most - (versions[0] - self._first))
            versions = versions[0], min(versions[1], self._first + most - creations[0])
        creations = creations[0], min(creations[1], mades[1])
        if any(low > high for low, high in (mades, creations, versions)):
            return None
        return State(mades, creations, versions, state.value if value is None else value, most)

    def _placed(self, node: _Node | None) -> tuple[Placed, ...]:
        steps: list[tuple[int, int, int]] = []
        while node is not None:
            steps += [node.by] if node.by is not None else []
            node = node.before
        left = [list(zip(group.floors, group.acts, strict=True)) for group in self._groups]
        placements = []
        for group, low, high in reversed(steps):
            # Of several that will do, the one that was invoked last can do least else.
            i = bisect_left([floor for floor, _ in left[group]], high) - 1
            floor, act = left[group].pop(i)
            placements.append(Placed(act, max(low, floor + 1), high))
        return tuple(placements)


def _checks_of(act: Act) -> tuple[Check, ...]:
    """Return what a part of a transaction of unknown outcome certainly needs of its own key."""
    txn = None if act.head is None else act.head.txn
    if txn is None or (not txn.succeeded and len(txn.compares) > 1):
        return ()
    return tuple(Check(0, 0, compare, txn.succeeded) for compare in txn.compares if compare.key == act.key)


def _met(known: tuple[int, int], number: int | None) -> tuple[int, int]:
    return known if number is None else (max(known[0], number), min(known[1], number))
