"""What the harness knows of a node in every runtime: its place and spec, its state, its starts, its log.

The nodes of the lab and of containers extend it with their own ways to start, stop and look.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.node import Exit, Node, NodeSpec, NodeState, Place
from fencepost.harness.runtime.server_log import SERVER_LOG


class KnownNode:
    """The part of `harness.runtime.node.Node` that is the same in every runtime."""

    def __init__(self, place: Place) -> None:
        self.wrap_argv: list[Callable[[tuple[str, ...]], Sequence[str]]] = []
        self.before_start: list[Callable[[Node], Awaitable[None]]] = []
        self.on_start: list[Callable[[Node], Awaitable[None] | None]] = []
        self._place = place
        self._spec: NodeSpec | None = None
        self._incarnation = -1
        self._state = NodeState.NEW
        self._last_exit: Exit | None = None

    @property
    def name(self) -> str:
        return self._place.name

    @property
    def place(self) -> Place:
        return self._place

    @property
    def spec(self) -> NodeSpec:
        if self._spec is None:
            raise HarnessError(f"node {self.name} has no spec yet: call realise() first")
        return self._spec

    def respec(self, spec: NodeSpec) -> None:
        now = self.spec
        if (spec.name, spec.listeners, spec.data_limit_bytes) != (now.name, now.listeners, now.data_limit_bytes):
            raise HarnessError(
                f"node {self.name} cannot become another node: name, listeners and data limit must stay the same"
            )
        self._spec = spec

    @property
    def state(self) -> NodeState:
        return self._state

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def last_exit(self) -> Exit | None:
        return self._last_exit

    @property
    def log(self) -> Path:
        return self._place.kept / SERVER_LOG

    @property
    def _is_up(self) -> bool:
        return self._state in (NodeState.RUNNING, NodeState.PAUSED)

    def _refuse_to_wipe(self) -> None:
        if self._is_up:
            raise HarnessError(f"node {self.name} is {self._state}: its data cannot be wiped")

    def _wrapped_argv(self) -> Sequence[str]:
        """Return the command of the next start."""
        argv: Sequence[str] = self.spec.argv
        for wrap in self.wrap_argv:
            argv = wrap(tuple(argv))
        return argv

    async def _tell_starting(self, node: Node) -> None:
        """Await every `before_start` function with `node`, which is this one."""
        for hook in self.before_start:
            await hook(node)

    async def _tell_started(self, node: Node) -> None:
        """Call every `on_start` function with `node`, which is this one."""
        for hook in self.on_start:
            waiting = hook(node)
            if waiting is not None:
                await waiting
