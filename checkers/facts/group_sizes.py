"""How large each node believes a group of voters to be, and how many of them it takes for a quorum ("2 of 3")."""

import re
from typing import Final

import msgspec

from fencepost.harness.history import BeliefEvent, Claim, History

_QUORUM_OF_SIZE: Final = re.compile(r"(\d+) of (\d+)")


class SizedBelief(msgspec.Struct, frozen=True, kw_only=True):
    """One answer that names a size. `incarnation` counts the node's starts from 0, `row` is the answer's event."""

    row: int
    at_ns: int
    node: str
    incarnation: int
    leads: bool
    quorum: int
    size: int


def sized_beliefs(history: History, subject: str) -> list[SizedBelief]:
    """List the answers about this subject that name a quorum and a size, in the order of time."""
    beliefs = []
    for event in history.of(BeliefEvent):
        match = _QUORUM_OF_SIZE.fullmatch(event.detail or "") if event.subject == subject else None
        if match is not None:
            beliefs.append(
                SizedBelief(
                    row=event.index,
                    at_ns=event.answered_ns,
                    node=event.node,
                    incarnation=event.incarnation,
                    leads=event.claims is Claim.YES,
                    quorum=int(match.group(1)),
                    size=int(match.group(2)),
                )
            )
    return beliefs
