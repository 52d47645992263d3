"""Each membership in a history: who joined with which id, what the lists showed of it, and its lease.

`join` has the member's number as value and the result [number, handle, ttl_ms]; `renew` and `leave` carry
[number, handle]. `list` carries a read mode, and its result is [id, number, token] for each member. The result of
`listen` is all ids, or None. A membership lives as its lease does, so it is laid out as one (`checkers.leases.view`).
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from fencepost.checkers.derived.positions import CURRENT_MODES
from fencepost.checkers.leases.view import GrantedLease, LookAtKeys, lease_of, showing
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome

_AS_LEASE: Final = {"renew": "keep", "leave": "revoke"}


class JoinedMember(msgspec.Struct, frozen=True, kw_only=True):
    """One acknowledged join, with everything that its owner did about it."""

    id: str
    number: int
    join: Operation
    renews: tuple[Operation, ...]
    leaves: tuple[Operation, ...]
    lease: GrantedLease


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """One answered list; `ids` by number."""

    op: Operation
    ids: dict[int, str]
    look: LookAtKeys


def listings_of(history: History) -> list[Listing]:
    """List the answered lists, in the order of their answers; raises MalformedHistory for results of another form."""
    answered = (o for o in history.operations if o.f == "list" and o.type is Outcome.OK)
    return sorted(map(_listing, answered), key=lambda listing: listing.look.completed_ns)


def _listing(op: Operation) -> Listing:
    try:
        ids = {int(number): str(member) for member, number, _ in op.result}
    except (TypeError, ValueError):
        raise MalformedHistory(
            f"event {op.complete_index}: a list's result is [id, number, token] for each member, not {op.result!r}"
        ) from None
    return Listing(op=op, ids=ids, look=LookAtKeys(op=op, current=op.value in CURRENT_MODES, numbers=frozenset(ids)))


def memberships_of(history: History, listings: Iterable[Listing]) -> list[JoinedMember]:
    """List every acknowledged membership, in the order of their joins.

    Raises:
        MalformedHistory: two joins have one number; names the event.

    Cost: O(n log n) in operations and in members that lists showed.
    """
    looks = [listing.look for listing in listings]
    shown = showing(looks)
    of_number: dict[int, list[Operation]] = {}
    for op in history.operations:
        if op.f == "join":
            of_number.setdefault(op.value, []).append(op)
        elif op.f in _AS_LEASE:
            of_number.setdefault(op.value[0], []).append(op)
    memberships = (_membership(n, own, looks, shown.get(n, [])) for n, own in of_number.items())
    return sorted((m for m in memberships if m is not None), key=lambda m: m.join.invoke_index)


def _membership(
    number: int, own: list[Operation], looks: list[LookAtKeys], showing: list[LookAtKeys]
) -> JoinedMember | None:
    join = next((o for o in own if o.f == "join" and o.type is Outcome.OK), None)
    if join is None:
        return None
    _, handle, ttl_ms = join.result
    laid_out = []
    for op in own:
        if op.f == "join":
            laid_out += [
                msgspec.structs.replace(op, f="grant", result=[handle, ttl_ms]),
                msgspec.structs.replace(op, f="attach"),
            ]
        else:
            laid_out.append(msgspec.structs.replace(op, f=_AS_LEASE[op.f], value=handle))
    lease = lease_of(number, laid_out, looks, showing)
    assert lease is not None
    return JoinedMember(
        id=join.key or "",
        number=number,
        join=join,
        renews=tuple(o for o in own if o.f == "renew"),
        leaves=tuple(o for o in own if o.f == "leave"),
        lease=lease,
    )
