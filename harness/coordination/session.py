"""A session: one client connection to one node, the base of every protocol in this folder."""

from typing import Protocol


class Session(Protocol):
    """A client connection to one node: opened once, used by one process, closed, never reopened.

    It never retries, reconnects, fails over or queues requests by itself. Each request ends in one of three ways: it
    returns (it took effect), raises `Definite` (it did not and never will), or raises `Indefinite` (nobody knows). A
    client in doubt raises `Indefinite`.
    """

    @property
    def session_id(self) -> int | None:
        """The server's own number for this session; None where the server has none."""
        ...

    async def close(self) -> None:
        """Close at once, without waiting for the server. Never raises."""
        ...
