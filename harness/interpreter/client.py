"""What the interpreter asks of a workload's client: one offer in, one completion out.

A client plays one process on one connection to one node. It raises `coordination.Definite` when nothing happened and
never will, `coordination.Indefinite` when that is not known; whatever else it raises is unforeseen, and unknown.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.generators.contract import Offer
from fencepost.harness.history import Completion, Outcome


class Client(Protocol):
    async def invoke(self, offer: Offer) -> Completion:
        """Do it, once. Cancelled when its deadline passes; must not swallow that."""
        ...

    async def close(self) -> None:
        """Give the connection up at once."""
        ...


#: Opens the client of (process, node). Raises `coordination.Definite` when it cannot: the operation at hand is then a
#: `fail` (nothing was sent) and the process lives on.
ClientFactory = Callable[[int, str], Awaitable[Client]]


class BrokenClient(HarnessError):
    """A client broke the contract; the operation is `info`, counted with the unforeseen."""


_COMPLETIONS = frozenset((Outcome.OK, Outcome.FAIL, Outcome.INFO))


def checked(completion: object) -> Completion:
    """The completion, if it is one; else BrokenClient says which rule broke."""
    if type(completion) is not Completion:
        raise BrokenClient(f"a client must return a Completion; it returned {completion!r}")
    if completion.type not in _COMPLETIONS:
        raise BrokenClient(f"a completion is ok, fail or info; the client returned {completion.type!r}")
    return completion
