"""One key: its versions by position, and whether each read shows the newest one at the position where it stands."""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import msgspec

from fencepost.checkers.findings.words import shown
from fencepost.checkers.storage.kv.acts import Act, Condition, Dialect, Kind
from fencepost.checkers.storage.kv.breach import Breach, breach_of


class Version(msgspec.Struct, kw_only=True, gc=False):
    """One version of a key, known from its write, from a read of it, or put into a gap (`hidden`).

    `forced`: no other act can have written it; `guessed`: its value is that of one of several who can have.
    `last` is the highest position at which it was seen in force, `gone` the lowest at which nothing was there any more,
    though no known write took it away, and `gone_last` the highest.
    """

    at: int
    kind: Kind
    value: int | None
    owner: Act | None = None
    shown_by: Act | None = None
    created: int | None = None
    created_by: Act | None = None
    version: int | None = None
    version_by: Act | None = None
    forced: bool = True
    guessed: bool = False
    hidden: bool = False
    last: int = 0
    last_by: Act | None = None
    gone: int | None = None
    gone_by: Act | None = None
    gone_last: int = -1

    @property
    def told_by(self) -> tuple[Act, ...]:
        """Who says that it was there."""
        answered = self.owner is not None and self.owner.done is not None
        act = self.owner if answered or self.shown_by is None else self.shown_by
        return () if act is None else (act,)


class Need(NamedTuple):
    """Writes of unknown outcome that must have taken effect in `gaps` (from, to; both exclusive), or it is a breach."""

    kind: Kind
    value: int | None
    gaps: tuple[tuple[int, int], ...]
    number: int
    breach: Breach
    certain: bool
    #: Where it could be as well, were the reads that want it to stand elsewhere; nothing is put there.
    later: tuple[int, int] | None = None


class Key:
    """One key: its versions by position, who read it, and whose outcome is unknown."""

    def __init__(self, name: str | None, dialect: Dialect, base: int) -> None:
        self.name = name
        self._dialect = dialect
        self._base = base
        self.versions: dict[int, Version] = {}
        self.reads: list[Act] = []
        self.unknown: list[Act] = []
        #: Values that ok writes compared with.
        self.compared: set[int] = set()
        #: Positions that were filled by choice, with the end of the gap, and choices that led nowhere.
        self.filled: dict[int, int] = {}
        self.tried: set[tuple[int, int]] = set()
        #: Where reads stood before such a choice moved them.
        self.moved: dict[int, dict[int, int]] = {}
        #: Of reads whose replies do not say where they stand: where, and by which bounds of session and `sync`.
        self.positions: dict[int, int] = {}
        self.bounds: dict[int, tuple[int, Act | None, int, Act | None]] = {}
        #: Whether what is wrong may be so only by where a read was taken to stand.
        self.chosen = False
        #: Whether to bind by what is certain alone, without reads that may have found nothing elsewhere as well.
        self.strict = False
        #: Whether two of its writes were acknowledged with one number.
        self.doubled = False
        self._sorted: list[int] = []

    def position(self, act: Act) -> int:
        """Return the position of a read."""
        return self.positions[act.invoked] if act.at is None else act.at

    def places(self) -> list[int]:
        """The positions of all versions, in order."""
        if len(self._sorted) != len(self.versions) or any(place not in self.versions for place in self._sorted):
            self._sorted = sorted(self.versions)
        return self._sorted

    def nothing_from(self, at: int, act: Act) -> int:
        """The first position from this one on where a read can have found nothing; the same if none is known."""
        places = self.places()
        i = bisect_right(places, at)
        newest = self.versions[places[i - 1]] if i else None
        if newest is None or newest.kind is Kind.DELETE:
            return at
        if newest.at < self._base and (i == len(places) or places[i] > newest.at + 1):
            return max(at, newest.at + 1)
        removals = (self.versions[p] for p in places[i:] if self.versions[p].kind is Kind.DELETE)
        return next((v.at for v in removals if v.owner is None or v.owner.invoked < act.ended), at)

    def nothing_between(self, low: int, place: int) -> None:
        """A key taken away at `place`: reads that found nothing from `low` on, and do not say where, stand there."""
        moved = self.moved[place] = {}
        for act in self.reads:
            if act.at is None and act.made is None and low < (at := self.positions[act.invoked]) < place:
                moved[act.invoked], self.positions[act.invoked] = at, place

    def misfit(self, act: Act, place: int) -> bool:
        """Whether what a write compared with is not in force before `place`, as far as that is known."""
        if act.expected is None:
            return False
        places = self.places()
        i = bisect_left(places, place)
        before = self.versions[places[i - 1]] if i else None
        there = before is not None and before.kind is Kind.PUT and before.gone is None
        match act.expected.condition:
            case Condition.ABSENT:
                return there
            case Condition.MADE:
                return before is None or not there or before.at != act.expected.number
            case Condition.VALUE:
                return before is None or not there or before.value not in (None, act.expected.number)
            case Condition.VERSION | Condition.PRESENT:
                return not there

    def floats(self) -> bool:
        """Whether any read that found nothing does not say where it stands."""
        return any(act.at is None and act.made is None for act in self.reads)

    def bind(self) -> tuple[int | None, list[Breach]]:
        """Compare each read with the newest version at its position.

        Returns the last position at which nothing was there yet, and the breaches.
        """
        places = self.places()
        for version in self.versions.values():
            version.last, version.last_by = version.at, None
            version.gone, version.gone_by, version.gone_last = None, None, -1
        before: int | None = None
        breaches: list[Breach] = []
        absent: list[tuple[int, Act, Version]] = []
        for act in self.reads:
            at = self._least(act)
            floats = self.strict and act.at is None and act.made is None
            i = bisect_right(places, at)
            newest = self.versions[places[i - 1]] if i else None
            if floats and (newest is None or newest.kind is Kind.DELETE):
                continue
            if act.made is not None:
                if newest is None or newest.at != act.made:
                    breaches.append(self._lost(self.versions[places[bisect_right(places, act.made)]], act, at))
                elif at > newest.last:
                    newest.last, newest.last_by = at, act
            elif newest is None:
                before = at if before is None else max(before, at)
            elif newest.kind is Kind.DELETE:
                newest.last = max(newest.last, at)
            else:
                absent.append((at, act, newest))
        for at, act, version in absent:
            if at <= version.last:
                breaches.append(self._lost(version, act, at))
                continue
            if not self.strict or act.at is not None:
                version.gone_last = max(version.gone_last, at)
            if version.gone is None or at < version.gone:
                version.gone, version.gone_by = at, act
        self.chosen = bool(breaches and self.filled) or any(self._is_chosen(breach) for breach in breaches)
        return before, breaches

    def _least(self, act: Act) -> int:
        """Return the position of a read; in a strict pass the least one that is certain."""
        if self.strict and act.at is None and act.made is not None:
            floor, by, fresh, _ = self.bounds[act.invoked]
            return max(act.made, fresh, 0 if by is not None and by.reached < floor else floor)
        return self.position(act)

    def _is_chosen(self, breach: Breach) -> bool:
        """Whether the read at fault, or what bounds it, could stand elsewhere as well."""
        act = breach.acts[-1]
        if act.at is not None:
            return False
        floor, by, _, _ = self.bounds[act.invoked]
        return act.made is None or (by is not None and by.reached < floor)

    def _lost(self, version: Version, act: Act, at: int) -> Breach:
        """`act` stands at a position where `version` was in force, and does not show it."""
        number = self._dialect.number
        what = "nothing" if act.made is None else f"what {shown(act.made)} made"
        witnesses = tuple(other for other in (*version.told_by, version.last_by) if other is not None)
        witnesses = (
            (witnesses[0], witnesses[-1])
            if act.made is None and len(witnesses) > 1 and witnesses[0] is not witnesses[-1]
            else witnesses[:1]
        )
        if act.at is None:
            floor, by, fresh, since = self.bounds[act.invoked]
            if fresh >= version.at and since is not None:
                step = f"{shown(version.at)} was there before the sync was invoked; the read behind it shows {what}."
                return breach_of("stale-after-sync", (*witnesses, *(() if since is act else (since,)), act), step)
            if floor >= version.at and by is not None:
                step = f"The session had been answered from {shown(floor)} before, and now is shown {what}, which "
                step += f"{shown(version.at)} had replaced."
                return breach_of("session-went-back", (*witnesses, *(() if by in witnesses else (by,)), act), step)
        step = f"The read was answered from {number} {shown(at)} with {what}."
        gone = "took it away" if version.kind is Kind.DELETE else "made a newer version"
        return breach_of(
            "lost-write", (*witnesses, act), step, f"{shown(version.at)}, which is not beyond that, {gone}."
        )


def by_whom(version: Version | None) -> tuple[Act, ...]:
    return () if version is None else version.told_by
