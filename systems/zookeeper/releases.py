"""ZooKeeper's releases: those of `versions`, and any by its folder of jars or in an image."""

import shlex
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.options import seconds
from fencepost.harness.java.archive_training import TrainingCluster
from fencepost.harness.java.java_releases import IMAGE, JavaReleases, StartArchive
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts
from fencepost.harness.runtime.node import Place, members_alike
from fencepost.systems.zookeeper import configuration, health
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.versions import DEFAULT, JARS
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.jute import Op
from fencepost.systems.zookeeper.wire.session import SEQUENTIAL

#: On a busy machine an attempt to lead may fail, which costs `init_limit` ticks, and a follower be late for a while.
_IN_TRAINING: Final = ZooKeeperOptions(tick=seconds(0.2), init_limit=50, sync_limit=100, session_timeout=seconds(10))
_ASK_S: Final = 10.0


class ZooKeeperReleases(JavaReleases):
    """An image that is not ours is run by its own entry point."""

    def in_image(self, image: ImageFacts) -> Artifacts:
        """The official image reads its configuration from the folder that ZOO_CONF_DIR names, so it can get ours."""
        if image.labels.get("org.fencepost.system") == self.name:
            return super().in_image(image)
        command = (*image.entrypoint, *image.command)
        if not command:
            raise UsageError(
                f"{image.reference}: the image has neither an entry point nor a command", hint=self.image_hint
            )
        paths = {IMAGE: image.reference, "command": shlex.join(command)}
        return Artifacts(version=image.version, paths=paths, sha256={IMAGE: image.id})


async def ask(place: Place) -> None:
    """One session: create, read, sync, a multi; so that their classes are loaded too."""
    session = await health.open_session(place, _ASK_S, _IN_TRAINING.session_timeout.ms)
    try:
        path, _ = await session.make("/training-", b"x", flags=SEQUENTIAL)
        await session.sync(path)
        await session.get(path, watch=True)
        await session.set(path, b"y")
        znode = wire.text(path)
        await session.multi(
            [(Op.CHECK, wire.version_record(znode, 1)), (Op.SET_DATA, wire.set_record(znode, b"z", -1))]
        )
        await session.children("/")
    finally:
        session.close()


#: The archive holds the classes of both roles and of an election: the recorded server follows, then leads.
_CLUSTER: Final = TrainingCluster(
    members=members_alike(3),
    recorded="n3",
    listeners=configuration.LISTENERS,
    spec=configuration.spec,
    options=_IN_TRAINING,
    serves=health.serves,
    ask=ask,
    leader="n2",
    leads=health.leads,
)
RELEASES: Final = ZooKeeperReleases(
    name="zookeeper",
    default=DEFAULT,
    jars=JARS,
    archives=(StartArchive(name="zookeeper", release=DEFAULT, program=configuration.PROGRAM, cluster=_CLUSTER),),
    image_folders=(configuration.IMAGE_FOLDER,),
    image_hint="give an image that starts a ZooKeeper server by itself, as the official one does",
)
