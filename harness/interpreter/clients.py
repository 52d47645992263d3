"""The clients of a run as the interpreter gets them: the node and the time limit of each worker."""

from dataclasses import dataclass

from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.interpreter.client import ClientFactory


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
