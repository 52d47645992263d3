"""Carry an order out on a plain store, answer by answer: the check that makes a history with numbered writes valid.

It knows nothing of how the order was found. What was there before the history is taken from the first answer about a
key; up to the position at which the history begins, unrecorded writes may have come between two answers.
"""

from collections.abc import Sequence

import msgspec

from fencepost.checkers.storage.kv.acts import ENDLESS, Act, Compare, Condition, Dialect, Kind, Target, Txn
from fencepost.harness.base.errors import UsageError


class _State(msgspec.Struct, kw_only=True):
    """A key. `present` None: nothing is known of it yet; `version` at least `least` where it is unknown.

    `start` is the first write of those that are counted in `least`, if it may have created the key; `puts` counts the
    writes of a key that may have been there when the history began.
    """

    present: bool | None = None
    made: int | None = None
    value: int | None = None
    created: int | None = None
    version: int | None = None
    least: int = 0
    start: int | None = None
    puts: int = 0
    seen: int = -1


def refusal(acts: Sequence[Act], dialect: Dialect, order: Sequence[tuple[Act, int]]) -> str | None:
    """Return why the acts cannot have happened in this order, at these positions; None: they can."""
    return _incomplete(acts, order) or _real_time(acts, dialect, order) or _Replay(acts, dialect).refusal(order)


def unheld(acts: Sequence[Act], dialect: Dialect, order: Sequence[tuple[Act, int]]) -> list[Act]:
    """Return the transactions whose reply this order contradicts, or leaves open, by their compares."""
    replay = _Replay(acts, dialect)
    replay.refusal(order)
    return [*replay.unheld, *replay.open]


def order_of(acts: Sequence[Act], rows: Sequence[int], links: Sequence[tuple[int | str, ...]]) -> list[tuple[Act, int]]:
    """Return the acts that a proof names by `rows`; `links` place those whose replies tell no position."""
    by_row = {act.row: act for act in acts}
    positions: dict[int, int] = {}
    for row, at_there, *branch in links:
        positions[int(row)] = int(at_there)
        heads = [a for a in acts if a.row == row and a.txn is not None and [int(a.txn.succeeded)] == branch]
        by_row |= {head.row: head for head in heads}
    order = []
    for row in rows:
        act = by_row.get(row)
        at = None if act is None else positions.get(row, act.at)
        if act is None or at is None:
            raise UsageError(f"event {row} invokes nothing that could stand in an order")
        order.append((act, at))
    return order


def _incomplete(acts: Sequence[Act], order: Sequence[tuple[Act, int]]) -> str | None:
    named = [act.row for act, _ in order]
    if len(set(named)) != len(named):
        return "an operation stands in it twice"
    missing = {act.row for act in acts if act.done is not None and act.kind is not Kind.SYNC} - set(named)
    if missing:
        return f"the operation of event {min(missing)} is missing"
    for act, at in order:
        if act.kind is Kind.SYNC or (act.at is not None and act.at != at):
            return f"the operation of event {act.row} does not stand at {at}"
    last = -1
    for act, at in order:
        if at < last or (act.writes and at == last):
            return f"the operation of event {act.row} stands at {at}, behind {last}"
        last = at
    return None


def _real_time(acts: Sequence[Act], dialect: Dialect, order: Sequence[tuple[Act, int]]) -> str | None:
    """Check that no act stands behind another that was invoked after its answer, where both are held to real time."""
    current, written, earlier, last = -1, -1, -1, -1
    sessions: dict[tuple[str, int], int] = {}
    for act, at in order:
        # A late read may tell of the state that a current one tells of, though not of a later one.
        earlier, last = (current, at) if at > last else (earlier, last)
        ended = ENDLESS if act.done is None else act.done
        own = sessions.get(act.session, -1) if not dialect.current else -1
        if ended < max(current if act.current else max(earlier, written), own):
            return f"the operation of event {act.row} stands behind one that was invoked after its answer"
        written = max(written, act.invoked) if act.writes else written
        current = max(current, act.invoked) if act.current else current
        if act.done is not None:
            sessions[act.session] = max(sessions.get(act.session, -1), act.invoked)
    return None if dialect.current else _syncs(acts, order)


def _syncs(acts: Sequence[Act], order: Sequence[tuple[Act, int]]) -> str | None:
    """Every read behind a `sync` stands at or behind each write that was acknowledged before the `sync` was invoked."""
    moments: list[tuple[int, int, Act]] = []
    for act in acts:
        if act.writes and act.done is not None:
            moments.append((act.done, 0, act))
        if act.kind is Kind.SYNC:
            moments.append((act.invoked, 1, act))
            if act.done is not None:
                moments.append((act.done, 2, act))
        if act.kind is Kind.READ:
            moments.append((act.invoked, 3, act))
    places = {act.row: at for act, at in order}
    highest = 0
    highest_at: dict[int, int] = {}
    fresh: dict[tuple[str, int], int] = {}
    for _, what, act in sorted(moments, key=lambda m: m[:2]):
        match what:
            case 0:
                highest = max(highest, act.known)
            case 1:
                highest_at[act.row] = highest
            case 2:
                fresh[act.session] = max(fresh.get(act.session, 0), highest_at[act.row])
            case _:
                if places[act.row] < max(fresh.get(act.session, 0), highest if act.fresh else 0):
                    return f"the read of event {act.row} stands before what its sync found"
    return None


class _Replay:
    def __init__(self, acts: Sequence[Act], dialect: Dialect) -> None:
        self._first = dialect.first_version
        begun = [a.known - a.writes for a in acts if a.done is not None and a.current and a.at is not None]
        self._begun = dialect.begun(begun)
        self._keys: dict[str | None, _State] = {}
        #: Transactions that say otherwise than their compares do, and those whose compares nobody can tell.
        self.unheld: list[Act] = []
        self.open: list[Act] = []

    def refusal(self, order: Sequence[tuple[Act, int]]) -> str | None:
        for act, at in order:
            parts: tuple[Act, ...]
            parts = (act,)
            if act.txn is not None:
                parts = act.txn.parts
                self._compares(act.txn, act, at)
            for part in parts:
                if (wrong := self._step(part, at)) is not None:
                    return f"event {act.row}: {wrong}"
        if self.unheld or self.open:
            return f"event {(self.unheld or self.open)[0].row}: its compares do not say what it says, or may not"
        return None

    def _state(self, key: str | None) -> _State:
        # Positions count from 1: at 0 there is nothing yet.
        nothing = False if self._begun <= 0 else None
        return self._keys.setdefault(key, _State(present=nothing, least=self._first - 1))

    def _step(self, act: Act, at: int) -> str | None:
        state = self._state(act.key)
        if act.made is not None and act.made > at:
            return f"it shows what {act.made} made, and stands before that"
        wrong = self._unrecorded(state, act, at) or self._condition(state, act)
        wrong = wrong or (self._write(state, act, at) if act.writes else self._read(state, act))
        state.seen = at
        return wrong

    def _compares(self, txn: Txn, head: Act, at: int) -> None:
        """All compares held just before the transaction, or one did not, as it says."""
        outcomes = [self._compared(compare, at, txn.succeeded) for compare in txn.compares]
        held = False if False in outcomes else None if None in outcomes else True
        if held is None:
            self.open.append(head)
        elif held != txn.succeeded:
            self.unheld.append(head)

    def _compared(self, compare: Compare, at: int, wanted: bool) -> bool | None:
        state = self._state(compare.key)
        if state.seen < self._begun and state.seen < at and self._begun > 0:
            self._forget(state, None)
        state.seen = max(state.seen, at)
        number = compare.number
        if state.present is None and compare.target is not Target.VALUE and compare.result == "=" and number == 0:
            # Whatever was there before the history is free.
            self._forget(state, not wanted)
            state.least = self._first if state.present else state.least
            return wanted
        if state.present is None and wanted and compare.result == "=" and self._suppose(state, compare):
            return True
        if not state.present:
            return None if state.present is None else compare.holds(None if compare.target is Target.VALUE else 0)
        if compare.target is Target.VALUE:
            return None if state.value is None else compare.holds(state.value)
        number_of = {Target.MADE: state.made, Target.CREATED: state.created, Target.VERSION: state.version}
        current = number_of[compare.target]
        if current is None and wanted and compare.result == "=" and self._suppose(state, compare):
            return True
        if current is None and number == 0:
            # Of a key that is there each of these is 1 at least.
            return compare.result in ("!=", ">")
        return None if current is None else compare.holds(current)

    def _suppose(self, state: _State, compare: Compare) -> bool:
        """Take a compare for equality at its word, where what was there is unknown; whether that can be."""
        number = compare.number
        match compare.target:
            case Target.MADE if state.made is None and not state.present and 0 < number <= self._begun:
                state.made = number
            case Target.VALUE if state.value is None:
                state.value = number
            case Target.VERSION if state.version is None and max(state.least, self._first) <= number <= self._most(
                state
            ):
                state.version = number
            case _:
                return False
        if state.present is None:
            state.present, state.least = True, max(state.least, self._first)
        return True

    def _unrecorded(self, state: _State, act: Act, at: int) -> str | None:
        """Forget the key where unrecorded writes may have come after what was last seen of it."""
        if (
            self._begun <= 0
            or state.seen >= self._begun
            or at == state.seen
            or (act.made is not None and act.made == state.made)
        ):
            return None
        if act.made is not None and act.made <= state.seen:
            return f"it shows what {act.made} made, which was replaced by {state.seen}"
        self._forget(state, None)
        return None

    def _forget(self, state: _State, present: bool | None) -> None:
        state.present, state.made, state.value, state.created, state.version = present, None, None, None, None
        state.least, state.start, state.puts = self._first - 1, None, 0

    def _condition(self, state: _State, act: Act) -> str | None:
        if act.expected is None:
            return None
        number = act.expected.number
        if act.expected.condition is not Condition.ABSENT and state.present is None:
            state.least = self._first
        match act.expected.condition:
            case Condition.ABSENT:
                wrong = state.present is True
                state.present = False
            case Condition.PRESENT:
                wrong = state.present is False
                state.present = True
            case Condition.MADE:
                wrong = state.present is False or state.made not in (None, number)
                wrong = wrong or (state.made is None and (number > self._begun or state.present is True))
                state.present, state.made = True, number
            case Condition.VALUE:
                wrong = state.present is False or state.value not in (None, number)
                state.present, state.value = True, number
            case Condition.VERSION:
                wrong = state.present is False or state.version not in (None, number)
                wrong = wrong or not state.least <= number <= self._most(state)
                state.present, state.version = True, number
        return f"it found something else than {act.expected.condition}" if wrong else None

    def _most(self, state: _State) -> int:
        """The version that a key has at most: as many writes as there is room for since its creation."""
        if state.version is not None:
            return state.version
        return self._first + self._begun - (state.created or 1) + state.puts

    def _write(self, state: _State, act: Act, at: int) -> str | None:
        if act.kind is Kind.DELETE:
            if state.present is False and not act.may_miss:
                return "it took away what was not there"
            self._forget(state, False)
            return None
        if state.made is not None and act.created is not None and state.made < act.created < at:
            return f"the key was there before {act.created}"
        if state.present is False:
            state.created, state.version = at, self._first
        elif state.version is not None:
            state.version += 1
            state.puts += 1
        else:
            state.least += 1
            state.puts += 1
            state.start = at if state.start is None and state.present is None else state.start
        state.present, state.made, state.value = True, at, act.value
        return self._agrees(state, act)

    def _read(self, state: _State, act: Act) -> str | None:
        if act.made is None:
            if state.present is True:
                return "it found nothing, where something is"
            self._forget(state, False)
            return None
        if state.present is None:
            if act.made > self._begun:
                return f"nobody wrote what it shows, made at {act.made}"
            state.present, state.made, state.value = True, act.made, act.value
            state.least = self._first
        if not state.present or state.made != act.made or state.value not in (None, act.value):
            return f"it shows what {act.made} made, where {state.made} is the last write"
        state.value = act.value
        return self._agrees(state, act)

    def _agrees(self, state: _State, act: Act) -> str | None:
        """Return why an answer's creation and version cannot be; None: they can, and the state has them from now on."""
        made, first = state.made or 0, self._first
        created = made if act.created is None and act.version == first else act.created
        if created is not None and not 0 < created <= made:
            return f"the key cannot have been created at {created}"
        if created not in (None, made, state.created, state.start) and created > self._begun:
            return f"nobody created the key at {created}"
        if act.version is not None and not 0 <= act.version - first <= made - (created or 1):
            return f"it cannot be version {act.version}"
        if act.version is not None and created is not None and (act.version == first) != (created == made):
            return f"it is version {act.version}, created at {created} and written at {made}"
        if created is not None:
            if state.created not in (None, created):
                return f"the key was created at {state.created}"
            state.created = created
            if state.version is None and state.start is not None:
                # Either the first write that is counted created the key, or something was there before it.
                state.version = state.least if created == state.start else None
                state.least += created < state.start
                state.start = None
        if act.version is not None:
            if state.version not in (None, act.version) or not state.least <= act.version <= self._most(state):
                return f"the version is {state.version}"
            state.version = act.version
        early = state.created is not None and state.created <= self._begun
        # What is more than was written since the history began was written from the creation up to that.
        room = self._begun - (state.created or 0)
        if early and state.version is not None and state.version - first - state.puts > room:
            return f"it cannot be version {state.version}, created at {state.created}"
        return None
