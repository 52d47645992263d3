"""Each lease in a history: its renewals, the looks that showed its key or should have, and its end.

`grant` has the result [handle, ttl_ms], `keep` the ttl_ms that was answered; `attach`, `keep` and `revoke` carry the
handle. `look` carries a read mode, and its result is the numbers of all keys that were there; the key of lease 7's
operations is "lease-7".

A look is *current* if its mode promises to show every change that was acknowledged before it was invoked. A look that
is not current also proves the end of a key, if the store's position says that the look saw a later state.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from fencepost.checkers.derived.positions import CURRENT_MODES
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome

PREFIX: Final = "lease-"


class LookAtKeys(msgspec.Struct, frozen=True, kw_only=True):
    """One answered look at all keys."""

    op: Operation
    current: bool
    numbers: frozenset[int]

    @property
    def invoked_ns(self) -> int:
        return self.op.invoked_ns

    @property
    def completed_ns(self) -> int:
        return self.op.completed_ns or self.op.invoked_ns


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster said that the lease lives for `ttl_ns`, from an instant between `asked_ns` and `answered_ns`."""

    op: Operation
    ttl_ns: int

    @property
    def asked_ns(self) -> int:
        return self.op.invoked_ns

    @property
    def answered_ns(self) -> int:
        return self.op.completed_ns or self.op.invoked_ns


class GrantedLease(msgspec.Struct, frozen=True, kw_only=True):
    """One lease that was granted.

    `may_renew` are all operations after which its time may count again, whatever their outcome; `renewals` are those
    that were answered so. `gone` is the first look that proves that its key has gone; `seen` are the current looks that
    showed the key.
    """

    number: int
    handle: str
    grant: Renewal
    attach: Operation | None
    renewals: tuple[Renewal, ...]
    keeps: tuple[Operation, ...]
    may_renew: tuple[Operation, ...]
    revokes: tuple[Operation, ...]
    seen: tuple[LookAtKeys, ...]
    gone: LookAtKeys | None
    #: The longest time to live that was answered.
    ttl_ns: int
    #: After this nothing can have renewed it; None when something of unknown outcome may at any time.
    last_answer_ns: int | None

    @property
    def revoke_asked_ns(self) -> int | None:
        """From when on a revoke may have ended it."""
        return min((o.invoked_ns for o in self.revokes if o.type is not Outcome.FAIL), default=None)

    @property
    def revoked(self) -> Operation | None:
        """The first acknowledged revoke."""
        done = [o for o in self.revokes if o.type is Outcome.OK]
        return min(done, key=lambda o: o.completed_ns or 0, default=None)


def looks_of(history: History) -> list[LookAtKeys]:
    """List the answered looks, in the order of their answers; raises MalformedHistory for results of another form."""
    looks = [
        LookAtKeys(op=o, current=o.value in CURRENT_MODES, numbers=frozenset(_numbers(o)))
        for o in history.operations
        if o.f == "look" and o.type is Outcome.OK
    ]
    return sorted(looks, key=lambda look: look.completed_ns)


def showing(looks: Iterable[LookAtKeys]) -> dict[int, list[LookAtKeys]]:
    """Map each number to the looks that showed its key."""
    shown: dict[int, list[LookAtKeys]] = {}
    for look in looks:
        for number in look.numbers:
            shown.setdefault(number, []).append(look)
    return shown


def _numbers(op: Operation) -> list[int]:
    if not isinstance(op.result, (list, tuple)) or not all(isinstance(number, int) for number in op.result):
        raise MalformedHistory(f"event {op.complete_index}: a look's result is a list of numbers, not {op.result!r}")
    return list(op.result)


def leases_of(history: History, looks: list[LookAtKeys]) -> list[GrantedLease]:
    """List every lease that was granted, in the order of their grants.

    Args:
        history: a run of the lease workload.
        looks: its answered looks, in the order of their answers.

    Raises:
        MalformedHistory: a lease was granted twice; names the event.

    Cost: O(n log n) in operations and in keys that looks showed, and the looks up to the end of each lease.
    """
    of_number: dict[int, list[Operation]] = {}
    for op in history.operations:
        if op.key is not None and op.key.startswith(PREFIX):
            of_number.setdefault(int(op.key.removeprefix(PREFIX)), []).append(op)
    shown = showing(looks)
    leases = (lease_of(number, own, looks, shown.get(number, [])) for number, own in of_number.items())
    return [lease for lease in leases if lease is not None]


def lease_of(
    number: int, operations: list[Operation], looks: list[LookAtKeys], showing: list[LookAtKeys]
) -> GrantedLease | None:
    """Return the lease that these operations are about; None if it was not granted.

    Args:
        number: its number, by which looks show it.
        operations: those of this lease, in the order of invocation.
        looks: all answered looks, in the order of their answers.
        showing: those of them that show the number.

    Raises:
        MalformedHistory: it was granted twice; names the event.
    """
    grants = [o for o in operations if o.f == "grant" and o.type is Outcome.OK]
    if not grants:
        return None
    if len(grants) > 1:
        raise MalformedHistory(f"event {grants[1].invoke_index}: lease {number} was granted before")
    grant = grants[0]
    handle, ttl_ms = grant.result
    granted = Renewal(op=grant, ttl_ns=ttl_ms * 1_000_000)
    kept = [Renewal(op=o, ttl_ns=o.result * 1_000_000) for o in operations if o.f == "keep" and o.type is Outcome.OK]
    attach = next((o for o in operations if o.f == "attach" and o.type is not Outcome.FAIL), None)
    shown = showing[bisect_left(showing, grant.invoked_ns, key=_answered_ns) :]
    may_renew = tuple(o for o in operations if o.f in ("grant", "attach", "keep") and o.type is not Outcome.FAIL)
    answers_ns = [o.completed_ns for o in may_renew if o.completed_ns is not None]
    return GrantedLease(
        number=number,
        handle=handle,
        grant=granted,
        attach=attach,
        renewals=(granted, *kept),
        keeps=tuple(o for o in operations if o.f == "keep"),
        may_renew=may_renew,
        revokes=tuple(o for o in operations if o.f == "revoke"),
        seen=tuple(look for look in shown if look.current),
        gone=_first_without(grant, number, attach, shown, looks),
        ttl_ns=max(renewal.ttl_ns for renewal in (granted, *kept)),
        last_answer_ns=max(answers_ns) if len(answers_ns) == len(may_renew) else None,
    )


def _answered_ns(look: LookAtKeys) -> int:
    return look.completed_ns


def _first_without(
    grant: Operation, number: int, attach: Operation | None, shown: list[LookAtKeys], looks: list[LookAtKeys]
) -> LookAtKeys | None:
    """Return the first look, by its answer, that lacks the key although it had been there."""
    there_ns: list[int] = []
    there_at: list[int] = []
    if attach is not None and attach.type is Outcome.OK:
        there_ns.append(attach.completed_ns or attach.invoked_ns)
        there_at += [] if attach.value_position is None else [attach.value_position]
    there_at += [look.op.position for look in shown if look.op.position is not None]
    there_ns += [look.completed_ns for look in shown if look.current]
    since_ns, since_at = min(there_ns, default=None), min(there_at, default=None)
    if since_ns is None and since_at is None:
        return None
    # A look that was answered before the key was asked for cannot show that it has gone, whatever its position says.
    asked_ns = grant.invoked_ns if attach is None else attach.invoked_ns
    first = bisect_left(looks, asked_ns, key=_answered_ns)
    for look in islice(looks, first, None):
        if number in look.numbers:
            continue
        if since_at is not None and look.op.position is not None:
            # An older state that is passed off as the current one says nothing of an end.
            if since_at <= look.op.position:
                return look
        elif look.current and since_ns is not None and since_ns <= look.invoked_ns:
            return look
    return None
