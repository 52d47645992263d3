"""Cassandra's releases: those that `jars.toml` records, any by its folder of jars, and any in an image.

A server is resolved by Maven coordinates: org.apache.cassandra:cassandra-all with all its dependencies. Cassandra 5.0
runs on Java 11 and 17, and 4.1 on 8 and 11, so neither runs on the Java of the other systems.
"""

import re
from pathlib import Path
from typing import Final

from fencepost.harness.contract import releases
from fencepost.harness.coordination import Keys, ReadMode
from fencepost.harness.java.archive_training import TrainingCluster
from fencepost.harness.java.java_releases import JavaReleases, StartArchive
from fencepost.harness.java.server_jars import ServerJars
from fencepost.harness.runtime.node import Place, members_alike
from fencepost.systems.cassandra import configuration, schema
from fencepost.systems.cassandra.asking import ATTEMPT_S, asking
from fencepost.systems.cassandra.client import RowStorage
from fencepost.systems.cassandra.configuration import CASSANDRA, CLIENT_PORT
from fencepost.systems.cassandra.options import CassandraOptions
from fencepost.systems.cassandra.wire.connection import connect

_DEFAULT: Final = "5.0.9"
_FIRST_ON_JAVA_17: Final = (5, 0)


def roots(version: str) -> list[str]:
    return [f"org.apache.cassandra:cassandra-all:{version}"]


def java_needed(version: str) -> int:
    """The feature release of the Java that this Cassandra runs on."""
    return 11 if releases.is_before(version, _FIRST_ON_JAVA_17) else 17


async def serves(place: Place) -> bool:
    """Whether a server that is alone answers."""
    async with asking(place) as connection:
        return await schema.peers(connection) == 0


async def ask(place: Place) -> None:
    """What runs ask of pairs and sets, so that the classes behind it are loaded too."""
    client = RowStorage(await connect(*place.dial(CLIENT_PORT), ATTEMPT_S), CassandraOptions())
    try:
        await client.prepare(Keys(("k",)))
        await client.write("k", b"1")
        await client.cas("k", b"1", b"2")
        await client.add("s", 1)
        for mode in ReadMode.STRONG, ReadMode.QUORUM, ReadMode.PLAIN:
            await client.read("k", mode)
            await client.members("s", mode)
    finally:
        await client.close()


JARS: Final = ServerJars(
    title="Cassandra",
    file=Path(__file__).with_name("jars.toml"),
    server_jar=re.compile(r"(?:apache-cassandra|cassandra-all)-(\d+\.\d+(?:\.\d+)?(?:-[\w.]+)?)\.jar"),
    server_jar_name="cassandra-all-<version>.jar or apache-cassandra-<version>.jar",
    folder="lib",
    roots=roots,
)
_CLUSTER: Final = TrainingCluster(
    members=members_alike(1),
    recorded="n1",
    listeners=configuration.LISTENERS,
    spec=configuration.spec,
    options=CassandraOptions(),
    serves=serves,
    ask=ask,
)
RELEASES: Final = JavaReleases(
    name=CASSANDRA,
    default=_DEFAULT,
    jars=JARS,
    archives=(StartArchive(name=CASSANDRA, release=_DEFAULT, program=configuration.PROGRAM, cluster=_CLUSTER),),
    # That of the Cassandra project, too.
    image_folders=("/opt/cassandra/lib",),
    image_hint="give an image with Cassandra's jars in that folder and `java` on its PATH, as the official one",
    java_needed=java_needed,
)
