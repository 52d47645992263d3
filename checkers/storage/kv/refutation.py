"""Whether a few operations show an anomaly by themselves: from their own numbers, apart from whatever found it.

The anomalies of `PROVEN` need nothing else of the history. The others rest on what is not there (nobody wrote a value,
no delete can have come between), which the whole history says: `checkers.storage.kv.proving` asks every state of the
key.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.storage.kv.acts import Act, Condition, Kind
from fencepost.checkers.storage.kv.facts import Store

PROVEN: Final = frozenset(
    {
        "lost-write",
        "stale-read",
        "session-went-back",
        "stale-after-sync",
        "revision-went-back",
        "duplicate-revision",
        "two-values",
        "impossible-metadata",
    }
)


def holds(anomaly: str, acts: Sequence[Act], store: Store) -> bool:
    """Whether the operations, the one at fault last, show it; a Txn as a whole or by what it did to a key."""
    if not acts:
        return False
    first, last = acts[0], acts[-1]
    match anomaly:
        case "revision-went-back":
            return last.writes and _before(first, last) and first.reached >= _at(last)
        case "stale-read":
            reads = last.kind is Kind.READ or (last.kind is Kind.TXN and not last.writes)
            return reads and last.current and _before(first, last) and first.reached > _at(last)
        case "session-went-back":
            by = acts[-2] if len(acts) > 1 else last
            if last.kind is not Kind.READ or by.session != last.session or not _before(by, last):
                return False
            if last.at is not None:
                return last.at < by.reached
            newer = (made for made in _versions(first) if last.made is not None and made > last.made)
            return first.key == last.key and any(made <= by.reached for made in newer)
        case "stale-after-sync":
            sync = acts[1] if len(acts) > 2 else last
            synced = last.fresh if sync is last else sync.kind is Kind.SYNC and _before(sync, last)
            same = sync.session == last.session
            return synced and same and first.writes and _before(first, sync) and _older(last, first)
        case "lost-write":
            if first.key != last.key or last.kind is not Kind.READ:
                return False
            if last.made is not None:
                return any(last.made < made <= _at(last) for made in _versions(first))
            # It was there, and another read saw it at or behind the place where this one found nothing.
            seen = acts[-2] if len(acts) > 2 else first
            made = _version(seen)
            return made is not None and seen.key == last.key and made <= _at(last) <= _at(seen)
        case "duplicate-revision":
            if first.row != last.row and first.writes and last.writes and first.at == last.at is not None:
                return True
            if first.key == last.key or Kind.TXN in (first.kind, last.kind) or store.together(first.key, last.key):
                return False
            return bool(_versions(first) & _versions(last))
        case "impossible-metadata":
            return _impossible(last, store.dialect.first_version)
        case "two-values":
            same_version = first.key == last.key and _version(first) == _version(last) is not None
            if not same_version or None in (first.shown, last.shown):
                return same_version and Kind.DELETE in (first.kind, last.kind)
            return same_version and (first.value != last.value or Kind.DELETE in (first.kind, last.kind))
    return False


def _impossible(act: Act, first: int) -> bool:
    """Whether no version can have all the numbers of one answer."""
    made = _version(act)
    if made is None:
        return False
    if act.kind is Kind.READ and act.at is not None and made > act.at:
        return True
    if act.children is not None and not (act.created or 0) <= act.children <= (act.at or act.children):
        return True
    # Each version after the first one has a number of its own behind the creation.
    created, writes = act.created or 1, 0 if act.version is None else act.version - first
    is_first = act.version is not None and act.created is not None and (writes == 0) != (created == made)
    return created > made or writes < 0 or writes > made - created or is_first


def _before(a: Act, b: Act) -> bool:
    """Whether `a` was answered before `b` was invoked."""
    return a.done is not None and a.done < b.invoked


def _at(act: Act) -> int:
    """Return the position that an answer tells; -1, before everything, where it tells none."""
    return -1 if act.at is None else act.at


def _version(act: Act) -> int | None:
    """The position of the version that an ok write made, or that a read shows."""
    return act.made if act.kind is Kind.READ else act.at if act.done is not None else None


def _versions(act: Act) -> set[int]:
    """The positions of all versions that an answer tells of: its own, the creation, and what a cas compared with."""
    positions = {_version(act), act.created}
    if act.expected is not None and act.done is not None and act.expected.condition is Condition.MADE:
        positions.add(act.expected.number)
    return {made for made in positions if made is not None}


def _older(read: Act, known: Act) -> bool:
    """Whether a read stands before what `known` tells: by its position, or by a newer version of the same key."""
    if read.at is not None:
        return read.at < known.reached
    made = _version(known)
    return read.key == known.key and made is not None and read.made is not None and read.made < made
