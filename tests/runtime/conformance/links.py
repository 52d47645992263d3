"""What every runtime does with links: every shape of a partition by its exact probe matrix, and what servers meet."""

import asyncio
import contextlib
import random
from itertools import permutations
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite, Interface
from fencepost.harness.faults.kind import Resolved
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach, Toxic
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.network.partition import PartitionFault
from fencepost.systems.etcd.wire.errors import CONNECTION_LOST, OWN_DEFINITE
from tests.fakes import acting
from tests.fakes.fakes_runtime import cluster_of
from tests.runtime.conformance.cluster import DEADLINE_S, Cluster, both_ways, refused
from tests.runtime.conformance.kinds import DIAL_OF_A_DEAD_NODE, HAS_STREAMS
from tests.runtime.conformance.stage import STAY
from tests.runtime.links.exact_probe import probe_exactly

DROP, RESET = Effect.DROP, Effect.RESET

#: As typed by a person; on the cluster's own leader and nodes.
SHAPES: Final = (
    "partition:one",
    "partition:minority",
    "partition:majority",
    "partition:follower",
    "partition:leader",
    "partition:leader:direction=in",
    "partition:leader:direction=out",
    "partition:leader:links=client",
    "partition:leader:links=client:direction=in",
    "partition:leader:links=client:direction=out",
    "partition:leader:links=all",
    "partition:leader:links=all:direction=out",
    "partition:n2:links=all:direction=in",
)
#: These need five nodes.
WIDE_SHAPES: Final = ("partition:ring", "partition:bridge", "partition:minority:links=all", "partition:majority")


async def _resolved(cluster: Cluster, text: str) -> Resolved:
    fault = PartitionFault()
    (spec,) = parse_faults(text, {"partition": fault}, Placement(nodes=len(cluster.names)))
    resolved = acting.aimed(fault, spec, await cluster.view(), random.Random(text))
    assert resolved.links
    return resolved


async def shape(cluster: Cluster, text: str) -> None:
    """One shape, enforced, proven exactly, withdrawn, proven open."""
    resolved = await _resolved(cluster, text)
    await cluster.network.apply(1, resolved.links)
    await cluster.prove(resolved.links)
    await cluster.network.withdraw(1)
    await cluster.prove({})


async def effects(cluster: Cluster) -> None:
    """Drops and resets in one direction or both, between nodes and towards the client."""
    everything = {Link(a, b): DROP for a, b in permutations([*cluster.names, CLIENT], 2)}
    patterns: list[dict[Link, Effect]] = [
        {Link("n1", "n2"): DROP},
        {Link("n1", "n2"): RESET},
        {Link("n1", "n2"): RESET, Link("n2", "n1"): DROP},
        both_ways(["n1"], ["n2", "n3"], RESET),
        {Link(CLIENT, "n3"): RESET},
        {Link("n3", CLIENT): RESET},
        {Link("n3", CLIENT): DROP},
        {Link("n1", "n2"): RESET, **both_ways(["n1"], [CLIENT])},
        everything,
        {},
    ]
    for number, links in enumerate(patterns):
        await cluster.network.apply(1, links)
        try:
            await cluster.prove(links)
        except AssertionError as error:
            raise AssertionError(f"pattern {number}: {error}") from error
    await cluster.network.withdraw(1)
    await cluster.prove({})


async def two_faults(cluster: Cluster) -> None:
    """A link that two faults hold opens with the last of them; the stronger effect rules; a fault may change."""
    first = {Link("n1", "n2"): RESET, Link(CLIENT, "n1"): DROP}
    await cluster.network.apply(1, first)
    await cluster.network.apply(2, {Link("n1", "n2"): DROP, Link("n2", "n3"): DROP})
    await cluster.prove({**first, Link("n1", "n2"): DROP, Link("n2", "n3"): DROP})
    await cluster.network.apply(2, {Link("n1", "n2"): DROP})
    await cluster.prove({**first, Link("n1", "n2"): DROP})
    await cluster.network.withdraw(1)
    await cluster.network.withdraw(1)
    await cluster.prove({Link("n1", "n2"): DROP})
    await cluster.network.withdraw(2)
    await cluster.prove({})


async def heal_all(cluster: Cluster) -> None:
    """Everything opens, also twice in a row; a fault that withdraws afterwards changes nothing."""
    await cluster.network.apply(1, both_ways(["n1"], ["n2", "n3"]))
    await cluster.network.apply(2, {Link(CLIENT, "n2"): RESET})
    await cluster.network.heal_all()
    await cluster.network.heal_all()
    assert cluster.network.blocked == {}
    await cluster.network.withdraw(1)
    await cluster.prove({})
    error = await refused(cluster.network.apply(3, {Link("n1", "n99"): DROP}))
    assert error.message == "there is no link n1>n99"
    await cluster.prove({})


async def fault_with_proof(cluster: Cluster) -> None:
    """As the nemesis does it, against the servers: the leader is superseded and fenced, and follows again."""
    fault, resolved = PartitionFault(), await _resolved(cluster, "partition:leader")
    old = await cluster.leader()
    others = [name for name in cluster.names if name != old]
    proof = await acting.inject(fault, 7, resolved, cluster_of(cluster.runtime))
    assert proof.outcome is FaultOutcome.INSTALLED, proof.text
    new = await cluster.leader(others)
    await cluster.write(new, "while split", "by the majority")
    assert not await cluster.serves(old, 0.6), "a cut-off node gave a current answer"
    proof = await acting.heal(fault, 7, resolved, cluster_of(cluster.runtime))
    assert proof.outcome is FaultOutcome.HEALED, proof.text
    await cluster.until_healthy()
    assert await cluster.read(old, "while split") == "by the majority"


async def client_cut_off(cluster: Cluster) -> None:
    """Clients do not reach the node, its peers do."""
    other = await cluster.leader()
    node = await cluster.follower(other)
    await cluster.network.apply(1, both_ways([node.name], [CLIENT]))
    assert not await cluster.serves(node.name, 0.6)
    (third,) = set(cluster.names) - {other, node.name}
    await cluster.nodes[third].kill()
    # Two of three are left, of which one is the node that we do not reach.
    await cluster.until(lambda: cluster.serves(other), "the rest to serve")
    await cluster.network.withdraw(1)
    await cluster.until(lambda: cluster.serves(node.name), "the node to be reached again")


async def restart_under_partition(cluster: Cluster) -> None:
    """A node that is started while its links are cut finds them cut, those included that were cut meanwhile."""
    node = await cluster.follower()
    one, two = (name for name in cluster.names if name != node.name)
    links = both_ways([node.name], [one, two])
    await cluster.network.apply(1, links)
    await node.kill()
    more = {Link(CLIENT, node.name): RESET, Link(one, two): DROP}
    await cluster.network.apply(2, more)
    await node.start()
    await cluster.prove(links | more)
    assert not await cluster.system.ready(node)
    await cluster.network.heal_all()
    await cluster.prove({})
    await cluster.until_healthy()


async def dead_node(cluster: Cluster) -> None:
    """Probes of a dead node's links end; so does healing and cutting them."""
    node = await cluster.follower()
    dead, other = node.name, next(name for name in cluster.names if name != node.name)
    await node.kill()
    every = [Link(a, b) for a, b in permutations([*cluster.names, CLIENT], 2)]
    # A probe is sent and heard in the node's network namespace, which outlives the server.
    wanted = dict.fromkeys(every, Reach.OPEN)
    assert await probe_exactly(cluster.network, wanted) == wanted
    assert await _dial(cluster, dead, DEADLINE_S) == cluster.expected(DIAL_OF_A_DEAD_NODE)
    await cluster.network.apply(1, both_ways([dead], [other]))
    await cluster.network.heal_all()


async def _dial(cluster: Cluster, name: str, timeout_s: float) -> str:
    """What a client meets that connects and waits for the first byte."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                *cluster.runtime.layout[name].dial(cluster.system.profile.listeners[CLIENT])
            )
            try:
                return "answered" if await reader.read(1) else "ended"
            finally:
                writer.close()
    except TimeoutError:
        return "unanswered"
    except ConnectionRefusedError:
        return "refused"
    except ConnectionResetError:
        return "ended"


async def open_connection(cluster: Cluster) -> None:
    """A request over a connection whose link is dropped: unanswered, and after healing it goes on."""
    client: Any = await cluster.system.open_client(
        cluster.runtime.layout["n1"], Interface.STORAGE, connect_timeout_s=2.0
    )
    try:
        await cluster.until(lambda: _is_written(client), "a write over the connection")
        await cluster.network.apply(1, both_ways(["n1"], [CLIENT]))
        asking = asyncio.ensure_future(client.write("over", b"a dropped link"))
        done, _ = await asyncio.wait({asking}, timeout=0.5)
        assert not done, "answered over a dropped link"
        await cluster.network.withdraw(1)
        async with asyncio.timeout(DEADLINE_S):
            try:
                await asking
            except Indefinite as error:
                # Servers that had to wait for the processor elect anew, and answer that.
                if error.code == CONNECTION_LOST:
                    raise AssertionError("the connection ended") from error
            except Definite as error:
                if error.code in OWN_DEFINITE:
                    raise AssertionError("a lie: it may have been done") from error
    finally:
        await client.close()


async def _is_written(client: Any) -> bool:
    with contextlib.suppress(Definite, Indefinite):
        await client.write("over", b"an open connection")
        return True
    return False


async def streams(cluster: Cluster) -> None:
    """Faults above the packet level are there where a proxy is, and are undone with the links."""
    given = cluster.runtime.streams
    assert (given is not None) is cluster.expected(HAS_STREAMS)
    if given is None:
        return
    slow = Toxic(kind="latency", attributes={"latency": 60})
    link = Link(CLIENT, "n1")
    await given.apply(1, {link: slow})
    assert list(await given.read_back()) == [link]
    took = (await given.measure([link]))[link].round_trip_ms
    assert took is not None
    assert took >= 55.0
    await cluster.prove({})
    await cluster.network.heal_all()
    assert await given.read_back() == {}


async def be_in_the_middle(cluster: Cluster) -> str:
    """A link cut, a node paused, another dead: how a cluster may be when it is closed or killed."""
    await cluster.network.apply(1, both_ways(["n1"], ["n2"]))
    await cluster.nodes["n3"].pause()
    await cluster.nodes["n2"].kill()
    return STAY
