"""Whether the answers of a store with numbered writes agree with one order: that of the numbers.

Three things are asked, each in near-linear time. Do the numbers agree with real time? Is what was read of a key its
newest version at the number that the answer stands at? And does each version follow from the one before it: counted,
created, and compared with as conditions say?

A write of unknown outcome has a place only where an answer shows that it took effect: the version that was read, or the
gap that a count, a deletion or a condition leaves. It may stand at any number beyond what the store had reached when it
was invoked. Where no such write can fill a place, no order explains the history: that is a breach. Where several could
and the first choice does not work out, it is left open. Versions of numbers at which the history had not begun yet were
there before; later ones need a writer.

Size: one file, since the three questions share the state of one pass over the numbers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final

import msgspec

from fencepost.checkers.findings.words import shown
from fencepost.checkers.storage.kv.acts import ENDLESS, Act, Condition, Dialect, Kind, by_key
from fencepost.checkers.storage.kv.breach import Breach, breach_of, named
from fencepost.checkers.storage.kv.chain import Chain, open_question
from fencepost.checkers.storage.kv.facts import Writers
from fencepost.checkers.storage.kv.floors import Floors
from fencepost.checkers.storage.kv.metadata import impossible
from fencepost.checkers.storage.kv.real_time import RealTime
from fencepost.checkers.storage.kv.versions import Key, Need, Version

#: Tries to fill the gaps of one key.
_PLACED_MAX: Final = 10_000
#: Choices of one key that are taken back.
_UNDONE_MAX: Final = 300


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, and what is left open, or the order: every act that took effect, with its position.

    `open`: keys in doubt, and what may be wrong with each.
    """

    breaches: list[Breach]
    doubts: list[str]
    open: dict[str | None, Breach | None]
    order: list[tuple[Act, int]]


def judge(acts: Sequence[Act], dialect: Dialect, pinned: Mapping[int, Act] | None = None) -> Judged:
    """The acts of one history, in the order of invocation. Cost: O(n log n) but for gaps that are filled.

    `pinned`: by number, writes of unknown outcome that are taken to have taken effect there.
    """
    return _Store(acts, dialect, pinned or {}).judged()


class _Store:
    """All keys and the numbers that they share.

    Size: the three questions share the state of one pass over the numbers.
    """

    def __init__(self, acts: Sequence[Act], dialect: Dialect, pinned: Mapping[int, Act]) -> None:
        self._acts = acts
        self._pinned = pinned
        self._parts = list(by_key(acts))
        self._dialect = dialect
        self._breaches: list[Breach] = []
        self._doubts: list[str] = []
        self._open: dict[str | None, Breach | None] = {}
        self._keys: dict[str | None, Key] = {}
        self._used: set[int] = set()
        #: The least position that the store can have reached when the history began, were it one of its first answers.
        reached = [
            a.known - 1 if a.writes else a.known for a in acts if a.done is not None and a.current and a.at is not None
        ]
        self.base = dialect.begun(reached)
        self.owners: dict[int, Act] = {}
        #: Positions of versions that no acknowledged write made.
        self.taken: set[int] = set()
        self._filled: set[int] = set()
        self._floors = Floors(acts)

    def judged(self) -> Judged:
        for act in self._parts:
            if act.writes and act.done is not None:
                self._own(act)
        for act in self.owners.values():
            key = self._key(act.key)
            self._declare(key, key.versions[act.known], act)
        for act in self._parts:
            if act.kind is Kind.READ:
                self._show(act)
        self._name_writers()
        held = RealTime(self._acts, self._dialect, self._floors, self._key)
        self._breaches += held.breaches
        for name, why in held.doubts:
            self._doubt(name, why)
        for key in self._keys.values():
            if not key.doubled:
                self._settle(key)
        order = self._order()
        return Judged(breaches=self._breaches, doubts=list(dict.fromkeys(self._doubts)), open=self._open, order=order)

    def floor(self, act: Act) -> int:
        """The highest position that anything answered before `act` was invoked had told."""
        return self._floors.before(act.invoked)[0]

    # Versions

    def _key(self, key: str | None) -> Key:
        if key not in self._keys:
            self._keys[key] = Key(key, self._dialect, self.base)
        return self._keys[key]

    def _own(self, act: Act) -> None:
        other = self.owners.setdefault(act.known, act)
        if other.whole is not act.whole:
            step = f"Each was acknowledged with the {self._dialect.number} {shown(act.at)}, which belongs to one write."
            self._break("duplicate-revision", (other, act), step)
        key = self._key(act.key)
        if act.known in key.versions:
            # Which of the two came first nobody says, so that nothing more can be said of the key.
            key.doubled = True
            return
        version = Version(at=act.known, kind=act.kind, value=act.value, owner=act, last=act.known)
        key.versions[act.known] = version

    def _show(self, act: Act) -> None:
        key = self._key(act.key)
        key.reads.append(act)
        if act.made is None:
            return
        if act.at is not None and act.made > act.at:
            number, made = self._dialect.number, self._dialect.made
            step = f"It was answered with {made} {shown(act.made)}, beyond its own {number} {shown(act.at)}."
            self._break("impossible-metadata", (act,), step)
            key.reads.pop()
            return
        owner = self.owners.get(act.made)
        if owner is not None and owner.key != act.key and act.made not in key.versions:
            step = f"{shown(act.made)} is the {self._dialect.number} of a write of {named(owner.key)}, not of this key."
            self._break("duplicate-revision", (owner, act), step)
            key.reads.pop()
            return
        version = key.versions.get(act.made)
        if version is None:
            version = Version(at=act.made, kind=Kind.PUT, value=act.shown, shown_by=act, last=act.made)
            key.versions[act.made] = version
        elif version.kind is Kind.DELETE or (act.shown is not None and version.value not in (None, act.shown)):
            step = f"Of what {shown(act.made)} made of {named(act.key)} they say two different things."
            self._break("two-values", (*version.told_by, act), step)
            key.reads.pop()
            return
        elif version.value is None:
            version.value = act.shown
            version.shown_by = act
        self._declare(key, version, act)

    def _declare(self, key: Key, version: Version, act: Act) -> None:
        """What a reply says of when the key was created, and of its version."""
        names = self._dialect
        if (wrong := impossible(version.at, act, names)) is not None:
            self._break("impossible-metadata", (act,), wrong)
            return
        # The first version is the creation.
        created = version.at if act.created is None and act.version == names.first_version else act.created
        if created is not None:
            if version.created is not None and version.created != created and version.created_by is not None:
                step = f"Of the version that {shown(version.at)} made they give {shown(version.created)} and "
                step += f"{shown(created)} as {names.created}."
                self._break("wrong-creation", (version.created_by, act), step)
                return
            version.created, version.created_by = created, act
            beginning = key.versions.setdefault(
                created,
                Version(at=created, kind=Kind.PUT, value=None, shown_by=act, last=created),
            )
            if beginning.kind is Kind.DELETE or beginning.created not in (None, created):
                step = f"It was answered with {names.created} {shown(created)}, where the key was not created."
                self._break("wrong-creation", (*beginning.told_by, act), step)
                return
            if beginning.created is None:
                beginning.created, beginning.created_by = created, act
        if act.version is not None:
            if version.version is not None and version.version != act.version and version.version_by is not None:
                step = f"Of what {shown(version.at)} made they give {version.version} and {act.version} as version."
                self._break("wrong-version", (version.version_by, act), step)
                return
            version.version, version.version_by = act.version, act

    # Writers

    def _name_writers(self) -> None:
        """Who made the versions that no acknowledged write made: a write of unknown outcome, each one at most."""
        unknown: dict[tuple[str | None, int], list[Act]] = {}
        for act in self._acts:
            if act.done is None and act.txn is None:
                self._key(act.key).unknown.append(act)
                if act.kind is Kind.PUT:
                    unknown.setdefault((act.key, act.value), []).append(act)
        for act in self._parts:
            if act.expected is not None and act.expected.condition is Condition.VALUE and act.done is not None:
                self._key(act.key).compared.add(act.expected.number)
            if act.expected is not None and act.expected.condition is Condition.MADE and act.done is not None:
                key = self._key(act.key)
                made = act.expected.number
                if made not in key.versions and made < act.known and made not in self.owners:
                    key.versions[made] = Version(at=made, kind=Kind.PUT, value=None, shown_by=act, last=made)
        self._name_transactions()
        wanted: dict[tuple[str | None, int | None], list[Version]] = {}
        first_at: dict[int, tuple[str | None, Version]] = {}
        for name, key in self._keys.items():
            for version in key.versions.values():
                self.taken.add(version.at)
                if version.owner is not None or version.at <= self.base:
                    continue
                other = first_at.setdefault(version.at, (name, version))
                owner = self.owners.get(version.at)
                if owner is not None or other[1] is not version:
                    step = f"Both are said to have been made at {shown(version.at)}, which belongs to one write."
                    tellers = (owner,) if owner is not None else other[1].told_by
                    self._break("duplicate-revision", (*tellers, *version.told_by), step)
                    continue
                wanted.setdefault((name, version.value), []).append(version)
        for (name, value), versions in wanted.items():
            if value is not None:
                self._assign(versions, unknown.get((name, value), []), exact=True)
        for (name, value), versions in wanted.items():
            if value is None:
                puts = [act for act in self._keys[name].unknown if act.kind is Kind.PUT]
                self._assign(versions, puts, exact=False)

    def _name_transactions(self) -> None:
        """Put transactions of unknown outcome where versions were shown that no other write is likely to have made."""
        for at, act in self._pinned.items():
            self._pin(act, at, forced=False)
        heads = [act for act in self._acts if act.txn is not None and act.done is None]
        if not heads:
            return
        shown: dict[int, list[tuple[str | None, Version]]] = {}
        for name, key in self._keys.items():
            for version in key.versions.values():
                if version.owner is None and version.at > self.base:
                    shown.setdefault(version.at, []).append((name, version))
        single = Counter((a.key, a.value) for a in self._acts if a.done is None and a.kind is Kind.PUT)
        writers = Writers(heads)
        could: dict[int, list[Act]] = {}
        for at, made in shown.items():
            values = {name: version.value for name, version in made}
            could[at] = [head for head in writers.of(values) if self.floor(head) < at]
        # Those with the fewest choices first.
        for at in sorted(could, key=lambda at: (len(could[at]), at)):
            made = shown[at]
            alone = len(made) == 1 and made[0][1].value is not None and single[made[0][0], made[0][1].value] > 0
            free = [head for head in could[at] if head.invoked not in self._used]
            if alone or not free:
                continue
            self._pin(free[0], at, forced=len(could[at]) == 1)

    def _pin(self, act: Act, at: int, *, forced: bool) -> None:
        """A write of unknown outcome took effect at this number."""
        self._used.add(act.invoked)
        for part in by_key((act,)):
            key = self._key(part.key)
            value = part.value if part.kind is Kind.PUT else None
            version = key.versions.setdefault(at, Version(at=at, kind=part.kind, value=value, last=at))
            version.owner, version.forced = part, forced
            version.guessed = version.value is None and not forced
            version.value = value
            self.taken.add(at)

    def _assign(self, versions: list[Version], puts: list[Act], *, exact: bool) -> None:
        """Give each version one of `puts` as its writer. `exact`: no other version can have been made by these."""
        waiting = sorted(((self.floor(act), act.invoked, act) for act in puts), key=lambda w: w[:2], reverse=True)
        plain, conditional = list[Act](), list[Act]()
        met = 0
        # Whoever can have written a version can have written any later one, so the choice among them is free.
        for version in sorted(versions, key=lambda v: v.at):
            while waiting and waiting[-1][0] < version.at:
                act = waiting.pop()[2]
                met += 1
                if act.invoked not in self._used:
                    (plain if act.expected is None else conditional).append(act)
            free = plain or conditional
            if free:
                version.owner, version.forced = free.pop(), met == 1
                self._used.add(version.owner.invoked)
                version.guessed = version.value is None and not version.forced
                version.value = version.owner.value if version.value is None else version.value
            elif exact or not met:
                self._unwritten(version, met)
            else:
                key = version.told_by[0].key
                self._doubt(key, f"it is open who wrote {named(key)} at {shown(version.at)}")

    def _unwritten(self, version: Version, met: int) -> None:
        (act,) = version.told_by
        why = (
            f"No write of this value to {named(act.key)} was acknowledged there, and none of unknown outcome can have "
        )
        why += f"made it by then{', but for those that made other versions' if met else ''}."
        if act.expected == (Condition.MADE, version.at):
            step = f"It compared with what {shown(version.at)} made of {named(act.key)}, and was accepted."
            self._break("cas-on-wrong-revision", (act,), step, why)
            return
        step = f"It tells of a version of {named(act.key)} that was made at {shown(version.at)}."
        self._break("phantom-read", (act,), step, why)

    # Gaps

    def _settle(self, key: Key) -> None:
        """Find what is wrong with a key, or fill its gaps one after the other."""
        for _ in range(_PLACED_MAX):
            before, breaches = key.bind()
            problem = breaches or Chain(key, before, self._dialect, self.base).look()
            if not isinstance(problem, Need) and problem and not breaches and key.filled:
                # Perhaps only by what was chosen before.
                problem = open_question(problem[0])
            wrong = (
                problem if not isinstance(problem, Need) else [] if self._possible(key, problem) else [problem.breach]
            )
            if not wrong and not isinstance(problem, Need) and not key.strict:
                return
            open_ = bool(wrong) and (key.chosen or (isinstance(problem, Need) and not problem.certain))
            if open_ and isinstance(problem, Need) and self._undo(key, problem):
                continue
            if wrong and not key.strict and key.floats():
                # Perhaps only by where reads were taken to stand that do not say it: it must be wrong without them.
                key.strict = True
                continue
            if wrong and not key.chosen and (not isinstance(problem, Need) or problem.certain):
                self._breaches += [_compared(self._torn(key, breach)) for breach in wrong]
                return
            if wrong or key.strict:
                suspicion = f": {wrong[0].anomaly}, or not" if wrong else ""
                breach = wrong[0] if wrong else None
                self._doubt(key.name, f"it is open whether {named(key.name)} has an order{suspicion}", breach)
                return
            assert isinstance(problem, Need)
            if not self._place(key, problem) and not self._undo(key, problem):
                why = f"it is open which writes of unknown outcome of {named(key.name)} took effect when"
                self._doubt(key.name, why, problem.breach)
                return
        self._doubt(key.name, f"{named(key.name)} has too many writes of unknown outcome")

    def _torn(self, key: Key, breach: Breach) -> Breach:
        """Name a lost write a torn transaction if another write of the same transaction was shown."""
        act = breach.acts[-1]
        if breach.anomaly != "lost-write" or act.at is None:
            return breach
        for at in key.places():
            owner = key.versions[at].owner
            head = None if owner is None else owner.head
            if head is None or head.txn is None or not (act.made or 0) < at <= act.at:
                continue
            others = (self._keys[part.key] for part in head.txn.parts if part.writes and part.key != key.name)
            seen = next((read for other in others for read in other.reads if read.made == at), None)
            if seen is not None:
                step = f"Both are of the transaction at {shown(at)}: what it made of {named(seen.key)} was shown, and"
                return breach_of("torn-transaction", (head, seen, act), f"{step} of {named(key.name)} it was not.")
        return breach

    def _could(self, key: Key, need: Need, filled: Set[int] = frozenset()) -> list[tuple[int, Act]]:
        """Who could stand in a gap, wanted elsewhere or not, each with the first place there but for those `filled`."""
        candidates = []
        for act in key.unknown:
            if act.kind is need.kind and need.value in (None, act.value):
                floor = self.floor(act)
                place = next(
                    (p for low, high in need.gaps for p in self._places(max(low, floor), high, 1, filled)), None
                )
                if place is not None:
                    candidates.append((place, act))
        return candidates

    def _places(self, low: int, high: int, count: int, filled: Set[int] = frozenset()) -> list[int]:
        """Up to `count` numbers between the two (both exclusive) that no known write has."""
        numbers: list[int] = []
        at = low + 1
        while at < high and len(numbers) < count:
            if at not in self.owners and at not in self.taken and at not in filled:
                numbers.append(at)
            at += 1
        return numbers

    def _possible(self, key: Key, need: Need) -> bool:
        if need.later is not None:
            need = need._replace(gaps=(*need.gaps, need.later))
        room = sum(len(self._places(low, high, need.number)) for low, high in need.gaps)
        return room >= need.number and len(self._could(key, need)) >= need.number

    def _place(self, key: Key, need: Need) -> bool:
        """Put one write of unknown outcome into a gap."""
        until = need.gaps[-1][1]
        free = [
            (place, act)
            for place, act in self._could(key, need, self._filled)
            if act.invoked not in self._used and (act.invoked, until) not in key.tried
        ]
        if not free:
            return False
        # What was invoked last has the fewest places, and most likely took effect here.
        place, act = min(free, key=lambda f: (key.misfit(f[1], f[0]), f[1].value in key.compared, -f[1].invoked))
        key.filled[place] = until
        if act.kind is Kind.DELETE:
            key.nothing_between(need.gaps[0][0], place)
        self._used.add(act.invoked)
        self._filled.add(place)
        key.versions[place] = Version(
            at=place, kind=act.kind, value=act.value, owner=act, forced=False, hidden=True, last=place
        )
        return True

    def _undo(self, key: Key, need: Need) -> bool:
        """Take back a choice that stands in the way of `need`, and never make it again; False if there is none."""
        if len(key.tried) >= _UNDONE_MAX:
            return False
        until = need.gaps[-1][1] if need.gaps else ENDLESS
        wanted = {act.invoked for _, act in self._could(key, need)}
        chosen = [place for place in key.filled if self._owner(key, place).invoked in wanted]
        chosen = chosen or [place for place in key.filled if place <= until]
        if not chosen:
            return False
        place = max(chosen)
        act = self._owner(key, place)
        key.tried.add((act.invoked, key.filled.pop(place)))
        del key.versions[place]
        key.positions.update(key.moved.pop(place, {}))
        self._used.discard(act.invoked)
        self._filled.discard(place)
        return True

    def _owner(self, key: Key, place: int) -> Act:
        owner = key.versions[place].owner
        assert owner is not None
        return owner

    # The order

    def _order(self) -> list[tuple[Act, int]]:
        positions = {act.row: (act, act.known) for act in self._acts if act.txn is not None and act.done is not None}
        for key in self._keys.values():
            positions |= {v.owner.row: (v.owner.whole, v.at) for v in key.versions.values() if v.owner is not None}
            positions |= {act.row: (act, key.position(act)) for act in key.reads if act.head is None}
        return sorted(positions.values(), key=lambda t: (t[1], not t[0].writes, t[0].invoked))

    def _doubt(self, key: str | None, why: str, breach: Breach | None = None) -> None:
        self._doubts.append(why)
        self._open[key] = self._open.get(key) or breach

    def _break(self, anomaly: str, acts: tuple[Act, ...], *steps: str) -> None:
        self._breaches.append(_compared(breach_of(anomaly, acts, *steps)))


def _compared(breach: Breach) -> Breach:
    """Name a breach a wrong compare if its last act is a compare that stands for a read."""
    act = breach.acts[-1]
    if act.head is None or act.head.txn is None or act not in act.head.txn.guards:
        return breach
    return breach._replace(anomaly="wrong-compare")
