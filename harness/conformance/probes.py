"""What the suite asks of a store, by the interface that its sessions offer: one change, one current read, one refusal.

A change is one request that carries `key`, so that the relay can count how often it was sent.
"""

from typing import Final, Protocol, cast

from fencepost.harness.base import offers
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import ClientSession, Interface, Keys, KeyValue, Needs, ReadMode

_WRITTEN: Final = b"1"


class Probe(Protocol):
    """Requests of one interface. Calls raise what the client raises."""

    #: The interface of its sessions.
    interface: str

    def needs(self, keys: tuple[str, ...]) -> Needs:
        """What `change` needs for these keys."""
        ...

    async def change(self, session: ClientSession, key: str) -> None:
        """One request that changes the key from absent to present."""
        ...

    async def holds(self, session: ClientSession, key: str) -> bool:
        """Whether a current read shows the change."""
        ...

    async def refuse(self, session: ClientSession, key: str) -> None:
        """One request on a changed key that the store must refuse."""
        ...


class StorageProbe:
    """Writes a key; a compare-and-set with a wrong value must be refused."""

    interface: str = Interface.STORAGE

    def __init__(self, system: System) -> None:
        modes = system.profile.read_modes
        self._current = ReadMode.STRONG if ReadMode.STRONG in modes else ReadMode.BARRIER

    def needs(self, keys: tuple[str, ...]) -> Needs:
        return Keys(keys)

    async def change(self, session: ClientSession, key: str) -> None:
        await cast(KeyValue, session).write(key, _WRITTEN)

    async def holds(self, session: ClientSession, key: str) -> bool:
        return (await cast(KeyValue, session).read(key, self._current)).value == _WRITTEN

    async def refuse(self, session: ClientSession, key: str) -> None:
        await cast(KeyValue, session).cas(key, b"another", b"2")


def probed() -> tuple[str, ...]:
    """The interfaces that the suite has requests for; of several that a system offers the first is used."""
    return (Interface.STORAGE, *offers.targets("probes"))


def probe_of(system: System) -> Probe | None:
    """The probe of the first interface that the suite has requests for; None where the system offers none of them."""
    if Interface.STORAGE in system.profile.interfaces:
        return StorageProbe(system)
    return next((make() for name, make in offers.loaded("probes").items() if name in system.profile.interfaces), None)
