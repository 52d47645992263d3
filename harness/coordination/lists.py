"""Transactions on several lists of numbers: read some, append to some, all at one moment."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import Session


class Lists(msgspec.Struct, frozen=True):
    """The lists that a transaction read, in the order in which it named them; position and epoch as in `Reply`."""

    lists: tuple[tuple[int, ...], ...]
    position: int | None = None
    epoch: int | None = None


class ListTransactions(Session, Protocol):
    """A list that nobody appended to is empty, and is made by the first append."""

    async def transact(self, reads: Sequence[str], appends: Sequence[tuple[str, int]]) -> Lists:
        """Read these lists, then append one number each, in one transaction.

        Raises `Definite` when the transaction was aborted: nothing of it ever takes effect.
        """
        ...
