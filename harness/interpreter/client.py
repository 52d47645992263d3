"""What the interpreter expects from a workload's client: one offer in, one completion out.

A client plays one process on one connection to one node. It raises `coordination.Definite` when nothing happened and
never will, and `coordination.Indefinite` when nobody knows. Any other exception is unforeseen and counts as unknown.

`Clients` says which node and which time limit each worker of a run has.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination import ClientSession
from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.generators.contract import Offer
from fencepost.harness.history import Completion, Outcome, Value

S = TypeVar("S", bound=ClientSession)


class Client(Protocol):
    async def invoke(self, offer: Offer) -> Completion:
        """Carry out the offer once. Cancelled when its deadline passes; must not catch the cancellation."""
        ...

    async def close(self) -> None:
        """Close the connection at once."""
        ...


#: Opens the client of (process, node). Raises `coordination.Definite` when it cannot: the operation then ends `fail`
#: (nothing was sent) and the process continues.
ClientFactory = Callable[[int, str], Awaitable[Client]]


class BrokenClient(HarnessError):
    """A client broke the contract; its operation ends `info` and counts as unforeseen."""


_COMPLETIONS = frozenset((Outcome.OK, Outcome.FAIL, Outcome.INFO))


def checked(completion: object) -> Completion:
    """Check that this is a completion; raises BrokenClient, which names the broken rule."""
    if type(completion) is not Completion:
        raise BrokenClient(f"a client must return a Completion; it returned {completion!r}")
    if completion.type not in _COMPLETIONS:
        raise BrokenClient(f"a completion is ok, fail or info; the client returned {completion.type!r}")
    return completion


class Stamped(Protocol):
    """An answer with the position of the node's store and the leader's epoch; None where it does not say them."""

    @property
    def position(self) -> int | None: ...
    @property
    def epoch(self) -> int | None: ...


class SessionClient(Generic[S]):
    """The base of clients with one `coordination.ClientSession`: it closes the session and makes completions."""

    def __init__(self, store: S) -> None:
        self._store = store

    async def close(self) -> None:
        await self._store.close()

    def _ok(self, value: Value, answer: Stamped, value_position: int | None = None) -> Completion:
        """Make an `ok` completion with the answer's position and epoch, and the session's number."""
        return Completion(
            Outcome.OK,
            value,
            position=answer.position,
            value_position=value_position,
            epoch=answer.epoch,
            session=self._store.session_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """How to open one client for each worker.

    `nodes` and `op_timeouts_s` (the time limit of an operation, in seconds) are by worker. `effect_free` are the
    functions that change nothing: such an operation ends `fail` when its outcome is unknown. `freezer` makes workers
    stand still as if their processes were stopped.
    """

    open: ClientFactory
    nodes: tuple[str, ...]
    op_timeouts_s: tuple[float, ...]
    open_timeout_s: float
    effect_free: frozenset[str] = frozenset()
    freezer: Freezer | None = None
