"""What the conformance suite asks of Kafka's metadata (`harness.conformance.probes`)."""

from typing import cast

from fencepost.harness.coordination import ClientSession, Needs
from fencepost.systems.kafka.protocols import KafkaInterface, Metadata, MetadataNeeds


class NameProbe:
    """Takes a name; one that is not a name must be refused.

    A name that is taken is no such refusal: a controller that asks its own keeper again may find what it made itself.
    """

    interface: str = KafkaInterface.METADATA

    def needs(self, keys: tuple[str, ...]) -> Needs:
        return MetadataNeeds(())

    async def change(self, session: ClientSession, key: str) -> None:
        await cast(Metadata, session).create_name(key)

    async def holds(self, session: ClientSession, key: str) -> bool:
        return (await cast(Metadata, session).name_taken(key)).value is not None

    async def refuse(self, session: ClientSession, key: str) -> None:
        await cast(Metadata, session).create_name(f"{key}!")
