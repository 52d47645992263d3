"""Waiting before a server is started again, for systems in which a dead server's place is not free at once."""

from typing import Protocol, runtime_checkable

from fencepost.harness.runtime.node import Layout, Node


@runtime_checkable
class WaitsToStart(Protocol):
    """A dead server is started again only once another process can take its place."""

    async def before_start(self, node: Node, layout: Layout) -> None:
        """Return once another process of this node can start, or nobody can tell; it sets a limit itself."""
        ...
