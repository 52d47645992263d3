"""What the suite asks of a store, by the interface that its sessions offer: one change, one current read, one refusal.

A change is one request that carries `key`, so that the relay can count how often it was sent.
"""

from typing import Final, Protocol, cast

from fencepost.harness.contract.servers import prepare_keys
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Interface, KeyValue, Metadata, ReadMode, Session

#: The interfaces that the suite has requests for; of several that a system offers the first is used.
PROBED: Final = (Interface.STORAGE, Interface.METADATA)
_WRITTEN: Final = b"1"


class Probe(Protocol):
    """Requests of one interface. Calls raise what the client raises."""

    async def prepare(self, session: Session, keys: tuple[str, ...]) -> None:
        """Make what `change` needs."""
        ...

    async def change(self, session: Session, key: str) -> None:
        """One request that changes the key from absent to present."""
        ...

    async def holds(self, session: Session, key: str) -> bool:
        """Whether a current read shows the change."""
        ...

    async def refuse(self, session: Session, key: str) -> None:
        """One request on a changed key that the store must refuse."""
        ...


class StorageProbe:
    """Writes a key; a compare-and-set with a wrong value must be refused."""

    def __init__(self, system: System) -> None:
        self._system = system
        modes = system.profile.read_modes
        self._current = ReadMode.STRONG if ReadMode.STRONG in modes else ReadMode.BARRIER

    async def prepare(self, session: Session, keys: tuple[str, ...]) -> None:
        await prepare_keys(self._system, session, keys)

    async def change(self, session: Session, key: str) -> None:
        await cast(KeyValue, session).write(key, _WRITTEN)

    async def holds(self, session: Session, key: str) -> bool:
        return (await cast(KeyValue, session).read(key, self._current)).value == _WRITTEN

    async def refuse(self, session: Session, key: str) -> None:
        await cast(KeyValue, session).cas(key, b"another", b"2")


class MetadataProbe:
    """Takes a name; one that is not a name must be refused.

    A name that is taken is no such refusal: a controller that asks its own keeper again may find what it made itself.
    """

    async def prepare(self, session: Session, keys: tuple[str, ...]) -> None:
        return None

    async def change(self, session: Session, key: str) -> None:
        await cast(Metadata, session).create_name(key)

    async def holds(self, session: Session, key: str) -> bool:
        return (await cast(Metadata, session).name_taken(key)).value is not None

    async def refuse(self, session: Session, key: str) -> None:
        await cast(Metadata, session).create_name(f"{key}!")


def probe_of(system: System) -> Probe | None:
    """The probe of the first interface that the suite has requests for; None where the system offers none of them."""
    if Interface.STORAGE in system.profile.interfaces:
        return StorageProbe(system)
    return MetadataProbe() if Interface.METADATA in system.profile.interfaces else None
