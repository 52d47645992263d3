"""The releases of one mode of Kafka: those of a range, from the same jars as the other modes."""

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.coordination import Definite
from fencepost.harness.java.java_releases import JavaReleases
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts
from fencepost.harness.runtime.artifacts.java import Java, find_java
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.client.client import asking
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.server import versions
from fencepost.systems.kafka.server.versions import numbers
from fencepost.systems.kafka.wire.codec import require_library

#: In our images and in that of the Apache project, and where others have the jars. Confluent's images are left out:
#: their jars do not say which Kafka they are.
IMAGE_FOLDERS: Final = ("/opt/kafka/libs", "/opt/bitnami/kafka/libs")
IMAGE_HINT: Final = (
    "give an image with Kafka's jars in one of these folders and `java` on its PATH; one that was compiled to a program"
    " (apache/kafka-native) cannot be run as a controller or broker of this cluster"
)
#: The modes, whose images have the same jars.
MODES: Final = ("kraft", "kafka-zk", "kafka-bridge")
#: For all of it; a loaded machine needs most of it.
_ASK_S: Final = 20.0
_ZOOKEEPER_JAR: Final = re.compile(r"zookeeper-\d[\w.-]*\.jar")


@dataclass(frozen=True, kw_only=True)
class KafkaReleases(JavaReleases):
    """The releases from `first` on that are before `end`, in one mode."""

    first: tuple[int, ...]
    end: tuple[int, ...] = ()
    #: Why another release is refused, after its name, and what to choose instead.
    outside: str
    outside_hint: str
    #: Whether ZooKeeper's nodes run from the same jars.
    keeper: bool = False

    def known(self) -> tuple[str, ...]:
        return tuple(version for version in super().known() if self._runs(version))

    def at_hand(self, version: str) -> bool:
        """Whether the jars and all start-up archives of this release are already in the cache."""
        if not super().at_hand(version):
            return False
        jars = self.jars.jars(version)
        return all(one.existing(find_java(), version, jars) is not None for one in self.archives)

    def find(self, version: str) -> tuple[str, list[Path]]:
        """Refuse what is known to fail before anything is fetched."""
        require_library()
        if not Path(version).is_dir():
            versions.refuse_word(version)
            versions.refuse_old_java(find_java(), versions.java_needed(version), version)
            self.refuse(version)
            versions.tell_what_is_left_out(version)
        release, jars = super().find(version)
        self.refuse(release)
        return release, jars

    def java(self, release: str, jars: Sequence[Path]) -> Java:
        java = super().java(release, jars)
        versions.refuse_old_java(java, versions.java_level(jars), release)
        return java

    def in_image(self, image: ImageFacts) -> Artifacts:
        require_library()
        return super().in_image(image)

    def look_into(self, image: ImageFacts) -> tuple[str, str]:
        release, folder = super().look_into(image)
        if self.keeper and not any(map(_ZOOKEEPER_JAR.fullmatch, image.files(folder))):
            raise UsageError(
                f"{image.reference}: there is no ZooKeeper beside the Kafka {release} in {folder}",
                hint="ZooKeeper's nodes run from the same image; take one with the jars of Kafka's distribution",
            )
        return release, folder

    def refuse(self, release: str) -> None:
        if not self._runs(release):
            raise UsageError(f"Kafka {release} {self.outside}", hint=self.outside_hint)

    def _runs(self, release: str) -> bool:
        return self.first <= numbers(release) and not (self.end and numbers(release) >= self.end)


async def ask_broker(place: Place) -> None:
    """What runs ask of a broker in training, about a topic of its own for each attempt: it may not be led at once."""
    async with asking(place.dial(CLIENT_PORT), _ASK_S) as broker:
        topic = f"training-{time.monotonic_ns()}"
        await broker.create_topic(topic)
        await broker.logs.produce(topic, 0, [b"x"])
        await broker.logs.fetch(topic, 0, 0)
        await broker.logs.position(topic, 0)
        await broker.metadata(None)
        with suppress(Definite):  # it fetches its first block of ids only now
            await broker.allocate_producer_id()
