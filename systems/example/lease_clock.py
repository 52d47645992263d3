"""How the example's leader counts leases: by its own monotonic clock, from the moment when a command was applied."""

from fencepost.systems.example.store import Command, ExampleStore


class LeaseClock:
    """When each lease of the store is over; times are seconds of the caller's clock."""

    def __init__(self, store: ExampleStore) -> None:
        self._store = store
        self._over_s: dict[str, float] = {}

    def begin(self, now_s: float) -> None:
        """Give every lease its whole time again: what an earlier leader counted is not known."""
        self._over_s = {}
        for lease in self._store.leases:
            self.count(lease, now_s)

    def count(self, lease: str, now_s: float) -> None:
        """Count the lease's time from now on, or no more if it has ended."""
        self._over_s.pop(lease, None)
        if lease in self._store.leases:
            self._over_s[lease] = now_s + self._store.leases[lease][0] / 1000

    def ends(self, now_s: float) -> list[Command]:
        """The commands that end what is over, each once; they are void where the lease is kept before they apply."""
        over = [lease for lease, over_s in self._over_s.items() if over_s < now_s]
        for lease in over:
            del self._over_s[lease]
        return [{"op": "end", "lease": lease, "kept": self._store.leases[lease][1]} for lease in over]
