"""Kafka clusters in containers behind each way of links: every node is asked by every way that the harness has."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Keys
from fencepost.harness.history import Claim
from fencepost.harness.plugins import registry
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.readiness import await_healthy, await_ready
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.containers.cluster import Containers
from fencepost.harness.runtime.containers.engine import engine as engines
from fencepost.harness.runtime.network import CLIENT, Effect, Link
from fencepost.harness.runtime.node import Layout
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.kafka.kraft.metadata_log import read_archive
from fencepost.systems.kafka.protocols import KafkaInterface, MetadataKind
from tests.runtime.conformance.kinds import KINDS
from tests.runtime.conformance.stage import require

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = [pytest.mark.containers, pytest.mark.long, pytest.mark.timeout(300)]

_HEALTHY_S = 60.0


@contextlib.asynccontextmanager
async def cluster(
    kind: str, system: System, options: Mapping[str, object], folder: Path, *, image: str = "", version: str = ""
) -> AsyncIterator[Containers]:
    """A cluster of this conformance kind that is healthy; closed at the end."""
    settings = system.profile.parse_options(options)
    placement = replace(KINDS[kind].placement, nodes=3, members=system.members(3, settings), image=image)
    provider = registry.runtime("containers")
    wanted = "" if image else version or system.releases.default
    artifacts: Artifacts = await asyncio.to_thread(provider.resolve, system.releases, wanted, placement, print)
    client = engines.connect()
    facts = engines.facts(client)
    if KINDS[kind].published:
        facts = replace(facts, reachable=False)
    opened = await Containers.open(client, facts, folder, placement, system.profile.listeners, artifacts.paths["image"])
    recorder = Recorder(None)
    try:
        await opened.realise(system.specs(opened.layout, artifacts, settings))
        await asyncio.gather(*(node.start() for node in opened.nodes.values()))
        await opened.await_links()
        await asyncio.gather(*(await_ready(system, node, recorder) for node in opened.nodes.values()))
        assert await await_healthy(system, opened.layout, deadline_s=_HEALTHY_S) is None
        yield opened
    finally:
        await opened.close()


async def claims(system: System, layout: Layout, subject: str) -> dict[str, Claim]:
    """What each node that has a say in it answers."""
    found = {}
    for name, place in layout.items():
        question = system.question(place, subject)
        if question is not None:
            async with asyncio.timeout(5.0):
                found[name] = (await question.ask()).claims
            await question.close()
    return found


@pytest.mark.parametrize("kind", ["rules", "published", "toxiproxy"])
@pytest.mark.parametrize(
    ("name", "options", "asked"),
    [("kraft", {"combined": True}, {"raft": 3, "controller": 3}), ("kafka-zk", {}, {"controller": 6, "view": 3})],
    ids=["combined", "kafka-zk"],
)
def test_every_node_answers_whatever_the_harness_asks(
    engine: "DockerClient", tmp_path: Path, kind: str, name: str, options: dict[str, object], asked: dict[str, int]
) -> None:
    require(kind)
    system = registry.system(name)

    async def run() -> None:
        async with cluster(kind, system, options, tmp_path) as it:
            found = {subject: await claims(system, it.layout, subject) for subject in asked}
            assert {subject: len(answers) for subject, answers in found.items()} == asked
            (active,) = [name for name, claim in found["controller"].items() if claim is Claim.YES]
            # With ZooKeeper no other broker takes a new topic.
            session: Any = await system.open_client(it.layout[active], KafkaInterface.METADATA, connect_timeout_s=5.0)
            await session.prepare(Keys(("one",)))
            assert (await session.alter(MetadataKind.SETTING, "one", b"7")).value == b"7"
            await session.close()
            # Every way to a node is cut with its link to the client, and opens again with it.
            first = next(iter(it.layout))
            await it.network.apply(1, {Link(CLIENT, first): Effect.DROP, Link(first, CLIENT): Effect.DROP})
            assert not await _answers(system, it.layout, first)
            await it.network.heal_all()
            assert await _answers(system, it.layout, first)

    asyncio.run(run())


async def _answers(system: System, layout: Layout, name: str) -> bool:
    question = system.question(layout[name], system.profile.subjects[0])
    assert question is not None
    try:
        async with asyncio.timeout(3.0):
            await question.ask()
    except Exception:
        return False
    finally:
        await question.close()
    return True


@pytest.mark.parametrize("release", ["3.7.0", "3.9.2"])
def test_other_releases_find_their_controllers_through_toxiproxy(
    engine: "DockerClient", tmp_path: Path, release: str
) -> None:
    """3.7 refuses to be told where controllers are, 3.9 has its leaders tell it."""
    system = registry.system("kraft")

    async def run() -> None:
        async with cluster("toxiproxy", system, {}, tmp_path, version=release) as it:
            assert list((await claims(system, it.layout, "raft")).values()).count(Claim.YES) == 1
            node = it.nodes["n1"]
            await node.kill()
            await it.copy_data("n1", tmp_path / "data.tar.gz")
            log = read_archive(tmp_path / "data.tar.gz", "n1")
            assert log is not None
            assert len(log.entries) > 10

    asyncio.run(run())


@pytest.fixture
def foreign(engine: "DockerClient") -> str:
    """The files of our image without its labels, its command and its environment, as an image of somebody else's."""
    from fencepost.harness.runtime.containers import images
    from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK

    ours = images.ensure(engine, images.of_system(KAFKA_ZK.releases.image_recipe))
    made = engine.containers.create(ours, entrypoint=["none"])
    reference = "fencepost-test/kafka:mine"
    try:
        with io.BytesIO() as whole:
            pieces: Any = made.export()
            for piece in pieces:
                whole.write(piece)
            path = ["ENV PATH=/opt/java/bin:/usr/bin:/bin"]
            engine.api.import_image_from_data(whole.getvalue(), "fencepost-test/kafka", tag="mine", changes=path)
    finally:
        made.remove(force=True)
    return reference


def test_an_image_of_your_own_is_run_by_its_jars(engine: "DockerClient", tmp_path: Path, foreign: str) -> None:
    system = registry.system("kafka-zk")

    async def run() -> None:
        async with cluster("rules", system, {}, tmp_path, image=foreign) as it:
            assert list((await claims(system, it.layout, "controller")).values()).count(Claim.YES) == 1

    try:
        asyncio.run(run())
        with pytest.raises(UsageError, match=r"no kafka_2\.13"):
            registry.runtime("containers").resolve(
                registry.system("kraft").releases,
                "",
                Placement(runtime="containers", image="fencepost/zookeeper:3.9.5"),
                print,
            )
    finally:
        engine.images.remove(foreign)
