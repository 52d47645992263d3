"""What the interpreter asks of a workload's client: one offer in, one completion out.

A client plays one process on one connection to one node. It raises `coordination.Definite` when nothing happened and
never will, `coordination.Indefinite` when that is not known; whatever else it raises is unforeseen, and unknown.
"""

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination import Session
from fencepost.harness.generators.contract import Offer
from fencepost.harness.history import Completion, Outcome, Value

S = TypeVar("S", bound=Session)


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


class Stamped(Protocol):
    """An answer that says where the node's store stood and which leader's epoch it was; None where it does not."""

    @property
    def position(self) -> int | None: ...
    @property
    def epoch(self) -> int | None: ...


class SessionClient(Generic[S]):
    """The base of clients over one session (`coordination.Session`): it closes the session and makes completions."""

    def __init__(self, store: S) -> None:
        self._store = store

    async def close(self) -> None:
        await self._store.close()

    def _ok(self, value: Value, answer: Stamped, value_position: int | None = None) -> Completion:
        """An `ok` completion with what the answer says of position and epoch, and with the session's number."""
        return Completion(
            Outcome.OK,
            value,
            position=answer.position,
            value_position=value_position,
            epoch=answer.epoch,
            session=self._store.session_id,
        )
