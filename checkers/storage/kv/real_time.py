"""Whether the numbers agree with real time, and with what a session or a `sync` had found before."""

from collections.abc import Callable, Sequence

from fencepost.checkers.findings.words import shown
from fencepost.checkers.storage.kv.acts import Act, Dialect, Kind
from fencepost.checkers.storage.kv.breach import Breach, breach_of, reached_words
from fencepost.checkers.storage.kv.floors import Floors, Session
from fencepost.checkers.storage.kv.versions import Key


class RealTime:
    """`breaches`, and by key what is open. Reads that do not say where they stand get a place in their key."""

    def __init__(
        self, acts: Sequence[Act], dialect: Dialect, floors: Floors, key_of: Callable[[str | None], Key]
    ) -> None:
        self.breaches: list[Breach] = []
        self.doubts: list[tuple[str | None, str]] = []
        self._acts = acts
        self._dialect = dialect
        self._floors = floors
        self._key = key_of
        self._look(self._sessions())

    def _look(self, sessions: dict[tuple[str, int], Session]) -> None:
        number = self._dialect.number
        for act in self._acts:
            if act.kind is Kind.SYNC:
                sessions[act.session].synced(act, self._floors.written(act.invoked))
            elif act.done is not None and act.current:
                floor, by = self._floors.before(act.invoked)
                if by is not None and act.writes and (floor > act.known or (floor == act.known and not by.writes)):
                    step = f"{reached_words(by, number)}, before the other was invoked, which yet has {shown(act.at)}."
                    self._add("revision-went-back", (by, act), step)
                elif by is not None and not act.writes and floor > act.known:
                    step = f"{reached_words(by, number)}, before the {act.op.f} was invoked, which yet was answered"
                    self._add("stale-read", (by, act), f"{step} from {shown(act.at)}.")
            elif act.kind is Kind.READ and not self._dialect.current:
                self._session_read(act, sessions[act.session])

    def _sessions(self) -> dict[tuple[str, int], Session]:
        """Return the acts of each session; none where reads are not held to sessions."""
        grouped: dict[tuple[str, int], list[Act]] = {}
        for act in () if self._dialect.current else self._acts:
            grouped.setdefault(act.session, []).append(act)
        return {session: Session(acts) for session, acts in grouped.items()}

    def _session_read(self, act: Act, session: Session) -> None:
        """A read of a session is not older than the session, nor than what its last `sync` found acknowledged."""
        number = self._dialect.number
        floor, by = session.before(act.invoked)
        sync = session.sync
        if act.fresh:
            sync = max(sync, (self._floors.written(act.invoked), act), key=lambda s: s[0][0])
        (fresh, write), since = sync
        key = self._key(act.key)
        at = max(act.made or 0, floor, fresh) if act.at is None else act.at
        if act.at is None:
            at = key.nothing_from(at, act) if act.made is None else at
            key.positions[act.invoked] = at
            key.bounds[act.invoked] = (floor, by, fresh, since)
        session.seen(act, at)
        if at < floor and by is not None and by.reached < floor:
            self.doubts.append((act.key, "it is open from which state a session was answered with nothing"))
        elif at < floor and by is not None:
            step = f"{reached_words(by, number)}; after that the same session was answered from {shown(at)}."
            self._add("session-went-back", (by, act), step)
        if at < fresh and write is not None and since is not None:
            step = f"{reached_words(write, number)}, before the sync was invoked."
            after = f"The read behind that sync was answered from {shown(at)}, where this write is missing."
            self._add("stale-after-sync", (write, *(() if since is act else (since,)), act), step, after)

    def _add(self, anomaly: str, acts: tuple[Act, ...], *steps: str) -> None:
        self.breaches.append(breach_of(anomaly, acts, *steps))
