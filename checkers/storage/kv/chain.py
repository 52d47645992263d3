"""Whether each version of a key follows from the one before it: counted, created, and compared with as it should be."""

from bisect import bisect_left
from typing import NamedTuple

from fencepost.checkers.findings.words import shown
from fencepost.checkers.storage.kv.acts import ENDLESS, Act, Condition, Dialect, Kind
from fencepost.checkers.storage.kv.breach import Breach, breach_of
from fencepost.checkers.storage.kv.versions import Key, Need, Version, by_whom


def open_question(breach: Breach) -> Need:
    """Turn a breach into a need: it would be one, were it certain who wrote what."""
    return Need(Kind.PUT, None, (), 1, breach, False)


class Claim(NamedTuple):
    """What `by` says of a version: its `number`; `anomaly` is the name if that cannot be."""

    number: int
    anomaly: str
    by: Act


class Chain:
    """Whether each version of a key follows from the one before it.

    Size: each method is one rule about neighbours in the same chain of versions.
    """

    def __init__(self, key: Key, before: int | None, dialect: Dialect, base: int) -> None:
        self._key = key
        self._dialect = dialect
        self._base = base
        self._versions = [key.versions[place] for place in key.places()]
        self._last = before
        self._before: Version | None = None
        #: Of what is in force: is anything, since when, of which version, and by which place that is known.
        self._present = False if base <= 0 or (before is not None and before >= base) else None
        self._created: int | None = None
        self._version: int | None = None
        self._anchor = -1
        #: How many versions there were at least, while their number is unknown; the first of them, if that may have
        #: created the key, or -1.
        self._since = 0
        self._start: int | None = None
        #: Writes since the beginning of the history, and from where on there can have been others before.
        self._puts = 0
        self._from = 1 if before is None else before + 1
        #: Whether anything rests on a choice among several writers.
        self._guessing = False
        #: The newest creation among versions from before the history.
        self._creation = 0
        #: Where other writes can have come before the version that the count begins with.
        self._earlier: tuple[tuple[int, int], ...] = ()

    def look(self) -> list[Breach] | Need:
        for i, version in enumerate(self._versions):
            problem = self._gone(version.at) or self._step(i, version)
            if problem is not None:
                return [problem] if isinstance(problem, Breach) else problem
        return self._gone(ENDLESS) or []

    def _gone(self, until: int) -> Need | None:
        """Return the delete that must be missing where a read found nothing, and no known delete explains it."""
        before = self._before
        if before is None or before.gone is None or before.gone_by is None or before.kind is Kind.DELETE:
            return None
        if before.last < self._base and before.at <= self._base:
            return None
        gaps: tuple[tuple[int, int], ...] = ((before.last, min(before.gone + 1, until)),)
        if before.gone_by.at is None:
            # It stands at the first place that is possible, and could stand at any later one.
            gaps = ((before.last, until),)
        step = f"The read was answered with nothing from {shown(before.gone)}; no delete can have come between."
        breach = breach_of("lost-write", (*before.told_by[:1], before.gone_by), step)
        later = (until, ENDLESS) if before.gone_by.at is None else None
        return Need(Kind.DELETE, None, gaps, 1, breach, not before.hidden, later)

    def _step(self, i: int, version: Version) -> Breach | Need | None:
        before = self._before
        if version.at <= self._base and version.owner is None:
            # Whatever came before the history is its own affair.
            if (wrong := self._too_old(version)) is not None:
                return wrong
            self._creation = version.at if version.created == version.at else self._creation
            known = version.last >= self._base
            self._present = True if known else False if version.gone_last >= self._base else None
            self._anchor, self._since, self._start, self._earlier = i, int(known), -1 if known else None, ()
            self._puts = 0
            self._created, self._version = (version.created, self._number(version)) if known else (None, None)
            self._from = max(self._from, version.gone_last + 1)
            self._before, self._last = version, max(version.last, version.gone_last)
            return None
        low = max(0 if self._last is None else self._last, 0)
        gap = (max(low, self._base) if self._present is None else low, version.at)
        problem = self._condition(version, gap)
        if problem is None:
            problem = self._removal(version, gap) if version.kind is Kind.DELETE else self._put(i, version, gap)
        if problem is None:
            self._before, self._last = version, version.last
        elif self._guessing or version.hidden or (before is not None and before.hidden):
            return problem._replace(certain=False) if isinstance(problem, Need) else open_question(problem)
        return problem

    def _too_old(self, version: Version) -> Breach | None:
        """Return what is wrong with a version from before the history: it claims a creation older than a known one."""
        since = max(self._from, self._creation)
        if version.created is not None and version.created < since and version.created_by is not None:
            step = f"It was answered with {self._dialect.created} {shown(version.created)}; what was created "
            step += "then was gone, or made again, by "
            return breach_of("wrong-creation", (version.created_by,), f"{step}{shown(since)}.")
        number, by = version.version, version.version_by
        if number is None or by is None:
            return None
        creators = () if version.created_by is None or version.created_by is by else (version.created_by,)
        writes = number - self._dialect.first_version
        if version.created is not None and (version.created == version.at) != (writes == 0):
            step = f"One tells of version {number}, and the key was created at {shown(version.created)}."
            return breach_of("wrong-version", (*creators, by), step)
        since = max(since, version.created or 0)
        if writes > version.at - since:
            step = f"It tells of version {number}: more writes than there can be from {shown(since)} on."
            return breach_of("wrong-version", (*creators, by), step)
        return None

    def _sure(self, version: Version) -> bool:
        """Whether neither this version nor the one before it rests on a choice."""
        before = self._before
        owner = version.owner
        certain = owner is None or owner.done is not None or version.forced
        return certain and not version.hidden and (before is None or not (before.hidden or before.guessed))

    def _condition(self, version: Version, gap: tuple[int, int]) -> Breach | Need | None:
        """Check that what the write at `version` compared with was there."""
        act, before = version.owner, self._before
        expected = act.expected if act is not None else None
        if expected is None or act is None:
            return None
        present = self._present
        self._guessing = self._guessing or (act.done is None and not version.forced)
        match expected.condition:
            case Condition.PRESENT:
                if present is False:
                    step = "It changes what is there; nothing was, and no write that creates it can have come between."
                    breach = breach_of("write-to-nothing", (*by_whom(before), act), step)
                    return self._need(Kind.PUT, version, (gap,), breach)
                self._there()
                return None
            case Condition.MADE:
                if act.done is None and expected.number not in self._key.versions:
                    self._guessing = True
                if (
                    before is not None
                    and before.at == expected.number
                    and before.kind is Kind.PUT
                    and present is not False
                ):
                    self._there(before)
                    return None
                step = f"It compared with {self._dialect.made} {shown(expected.number)}, no longer the last write then."
                breach = breach_of("cas-on-wrong-revision", (*by_whom(before), act), step)
                return breach if self._sure(version) else open_question(breach)
            case Condition.ABSENT:
                if present is not True:
                    return None
                anomaly = "create-over-existing" if act.op.f == "create" else "cas-on-wrong-revision"
                step = "It asks that the key is not there; it was, and no delete can have come between."
                return self._need(Kind.DELETE, version, (gap,), breach_of(anomaly, (*by_whom(before), act), step))
            case Condition.VALUE:
                if present is None or (present and before is not None and before.value in (None, expected.number)):
                    self._there()
                    return None
                step = (
                    "It compared with another value than was there, and no write of that value can have come between."
                )
                breach = breach_of("cas-on-wrong-value", (*by_whom(before), act), step)
                return self._need(Kind.PUT, version, (gap,), breach, value=expected.number)
            case Condition.VERSION:
                if present is False:
                    step = "It compared with a version, and nothing was there."
                    breach = breach_of("cas-on-wrong-version", (*by_whom(before), act), step)
                    return self._need(Kind.PUT, version, (gap,), breach)
                self._there()
                if version.kind is Kind.DELETE:
                    if present and self._version is not None and self._version != expected.number:
                        claim = Claim(expected.number, "cas-on-wrong-version", act)
                        return self._miscounted(version, claim, self._version)
                    return None
        return None

    def _there(self, version: Version | None = None) -> None:
        """Take the key to have been there, which was unknown; in this version, if one is given."""
        if self._present is None:
            self._present, self._since, self._start = True, self._since + 1, -1
            if version is not None:
                self._created, self._version = version.created, self._number(version)

    def _number(self, version: Version) -> int | None:
        """Return the version's number, if an answer about it tells that."""
        return self._dialect.first_version if version.created == version.at else version.version

    def _removal(self, version: Version, gap: tuple[int, int]) -> Need | None:
        if self._present is False and version.owner is not None and not version.owner.may_miss:
            step = "It was acknowledged to have taken the key away, which was not there."
            breach = breach_of("delete-of-nothing", (*by_whom(self._before), version.owner), step)
            return self._need(Kind.PUT, version, (gap,), breach)
        self._present, self._created, self._version, self._since, self._start = False, None, None, 0, None
        return None

    def _put(self, i: int, version: Version, gap: tuple[int, int]) -> Breach | Need | None:
        names, first = self._dialect, self._dialect.first_version
        act = version.owner
        expected = act.expected if act is not None else None
        created_here = version.created == version.at
        if created_here and self._present is True and version.created_by is not None:
            step = f"It was answered with {names.created} {shown(version.created)}; the key was there before, and no "
            step += "delete can have come between."
            breach = breach_of("wrong-creation", (*by_whom(self._before), version.created_by), step)
            return self._need(Kind.DELETE, version, (gap,), breach)
        if (
            created_here
            and expected is not None
            and expected.condition is not Condition.ABSENT
            and version.created_by is not None
        ):
            step = f"It compared with what was there, and yet has {names.created} {shown(version.created)}, its own."
            breach = breach_of("wrong-creation", (*(() if act is None else (act,)), version.created_by), step)
            return breach if self._sure(version) else open_question(breach)
        fresh = created_here or (expected is not None and expected.condition is Condition.ABSENT)
        creates = fresh or self._present is False
        created = version.at if creates else self._created if self._present else None
        if version.created is not None and created is not None and version.created != created:
            by = version.created_by
            step = f"It was answered with {names.created} {shown(version.created)}, and the key was created at "
            step += f"{shown(created)}."
            return breach_of("wrong-creation", (*by_whom(self._before), *(() if by is None else (by,))), step)
        since = max(self._from, self._creation)
        if created is None and version.created is not None and version.created < since:
            step = f"It was answered with {names.created} {shown(version.created)}; what was created then was gone, or "
            step += "made again, by "
            by_reply = () if version.created_by is None else (version.created_by,)
            return breach_of("wrong-creation", by_reply, f"{step}{shown(since)}.")
        due = first if creates else self._version + 1 if self._present and self._version is not None else None
        self._since, self._puts = self._since + 1, self._puts + 1
        self._start = version.at if self._start is None else self._start
        if version.created is not None and self._created is None and version.created < self._start:
            self._since += 1
        claims: list[Claim] = []
        if expected is not None and act is not None and expected.condition is Condition.VERSION:
            claims.append(Claim(expected.number + 1, "cas-on-wrong-version", act))
        if version.version is not None and version.version_by is not None:
            claims.append(Claim(version.version, "wrong-version", version.version_by))
        for claim in claims:
            number = claim.number
            least = due if due is not None else first + max(self._since - 1, self._known_since(version, i))
            if number < least or (number > least and due is not None):
                if fresh or number < first:
                    step = (
                        f"It tells of version {number}; the key had just been created, so that its version was {first}."
                    )
                    return breach_of("wrong-version", (claim.by,), step)
                return self._miscounted(version, claim, least, i=i, gap=gap, creates=creates)
            most = first + self._base - (self._created or version.created or self._from) + self._puts
            if due is None and number > most:
                problem = self._miscounted(version, claim, most, i=i, gap=gap, creates=creates)
                return problem._replace(certain=False) if isinstance(problem, Need) and self._key.unknown else problem
            due = number
        if due is not None and version.created is not None and due < first + self._known_since(version, i):
            by_reply = () if version.created_by is None else (version.created_by,)
            step = f"It tells of a creation at {shown(version.created)}; {self._known_since(version, i)} writes of the "
            step += f"key since then are known, and this is version {due}."
            breach = breach_of("wrong-version", (*by_whom(self._before), *by_reply), step)
            return open_question(breach) if self._key.filled else breach
        beginning = version.created if version.created is not None else self._created
        if due is not None and beginning is not None and beginning <= self._base:
            most = first + self._base - beginning + self._puts
            if due > most:
                told_of = [by for by in (version.created_by, version.version_by) if by is not None]
                step = f"It was created at {shown(beginning)} and would be version {due}: there can be {most} at most."
                return breach_of("wrong-version", (*by_whom(self._before), *told_of), step)
        if due is not None:
            self._since, self._start = 0, -1
        if claims or creates or self._anchor < 0:
            self._anchor, self._earlier = i, () if claims or fresh else (gap,)
        self._present, self._version = True, due
        self._created = created if created is not None else version.created
        return None

    def _known_since(self, version: Version, i: int) -> int:
        """Return how many versions are known from the key's creation up to `version`."""
        created = version.created or self._created
        return 0 if created is None else i - bisect_left(self._key.places(), created)

    def _miscounted(
        self,
        version: Version,
        claim: Claim,
        due: int,
        *,
        i: int | None = None,
        gap: tuple[int, int] | None = None,
        creates: bool = False,
    ) -> Breach | Need:
        """There are too few writes for the version that is claimed, or too many; by them it would be `due`."""
        number = claim.number
        here = self._versions.index(version) if i is None else i
        low = self._last if self._last is not None else 0
        gaps = [gap or (low, version.at)]
        if not creates and self._anchor >= 0:
            between = self._versions[self._anchor : here]
            gaps = [(v.last, after.at) for v, after in zip(between, self._versions[self._anchor + 1 :], strict=False)]
        if not creates:
            gaps = [*self._earlier, *gaps]
        hidden = any(v.hidden for v in self._versions[max(self._anchor, 0) : here + 1])
        if claim.anomaly == "wrong-version":
            step = f"It tells of version {number}; by the writes before it, it was {due}."
        else:
            step = f"It compared with version {number - (version.kind is Kind.PUT)}, and was accepted; by the writes "
            step += f"before it, the version was {due - (version.kind is Kind.PUT)}."
        breach = breach_of(claim.anomaly, (*by_whom(self._before), claim.by), step)
        if number > due:
            return Need(Kind.PUT, None, tuple(gaps), number - due, breach, not hidden and self._sure(version))
        same = version.created is not None and version.created == self._created
        removals = [act for act in self._key.unknown if act.kind is Kind.DELETE]
        if not same and removals:
            return Need(Kind.DELETE, None, tuple(gaps), 1, breach, not hidden and self._sure(version))
        return breach if not hidden and self._sure(version) else open_question(breach)

    def _need(
        self, kind: Kind, version: Version, gaps: tuple[tuple[int, int], ...], breach: Breach, value: int | None = None
    ) -> Need:
        return Need(kind, value, gaps, 1, breach, self._sure(version))
