"""Voters of a KRaft quorum: KIP-853, from 3.9 on, where the cluster was formatted for it.

Such a cluster keeps its voters in the metadata log (kraft.version 1), and servers find the quorum by
`bootstrap.servers` instead of a fixed list of voters. Only the leader says who votes and accepts changes, even of
itself: a leader that removes itself resigns once that is committed. Its answer may not be committed yet, so the answer
counts only when the high watermark has passed the end that the log had at that moment.

A new voter is started first and follows as an observer. A controller whose directory was wiped gets a new directory id,
as `kafka-storage format --no-initial-controllers` would give it. The old id never comes back, since a voter that forgot
its log and kept its id could vote twice.

Source: KIP-853; KafkaRaftClient, AddVoterHandler and RemoveVoterHandler of 3.9 to 4.3.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract import releases
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.kafka.client import raft_voters
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.names import CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.server import health, storage
from fencepost.systems.kafka.server.configuration import CONTROLLER
from fencepost.systems.kafka.server.options import KraftOptions
from fencepost.systems.kafka.server.start import PROPERTIES
from fencepost.systems.kafka.server.storage import Voter
from fencepost.systems.kafka.server.versions import JARS
from fencepost.systems.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER, ServerRefusal
from fencepost.systems.kafka.wire.values import MetadataQuorum

#: The first release whose voters can change.
FIRST: Final = (3, 9, 0)
LISTENER: Final = "CONTROLLER"
_FIXED: Final = "controller.quorum.voters="
_META: Final = "meta.properties"
_COMMITTED_POLL_S: Final = 0.05
#: The server's time limit for a change ends this much before the caller's, so that its answer still arrives.
_ANSWERS_EARLIER_MS: Final = 300


def fixed(version: str, options: KraftOptions) -> Refusal | None:
    """Why voters of this release (or folder of jars; "" for an image) cannot change; None when they can."""
    if options.combined:
        return Refusal(
            "with combined=true a voter is also a broker, and wiping it would wipe the broker's records",
            "leave combined= out",
        )
    if not version:
        return Refusal(
            "nobody knows before the start whether the Kafka in an image can change its voters", "give --version"
        )
    release = JARS.given(Path(version))[0] if Path(version).is_dir() else version
    if releases.is_before(release, FIRST):
        return Refusal(f"Kafka {release} has a fixed set of voters", "3.9.0 and later can change it (KIP-853)")
    return None


class KraftMembership:
    """`harness.contract.members.Membership`."""

    votes_last: Final = True
    only_leader_answers: Final = True
    ends_removed: Final = False

    def __init__(self, layout: Layout, version: str) -> None:
        self._layout, self._version = layout, version
        self._controllers = {name: place for name, place in layout.items() if CONTROLLER in place.roles}

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        quorum = ",".join(":".join(map(str, place.peer(CONTROLLER_PORT))) for place in self._controllers.values())
        lines = [
            f"controller.quorum.bootstrap.servers={quorum}" if line.startswith(_FIXED) else line
            for line in spec.files[PROPERTIES].splitlines()
        ]
        files = {**spec.files, PROPERTIES: "".join(f"{line}\n" for line in lines)}
        place = self._controllers.get(spec.name)
        if place is None:
            return replace(spec, files=files)
        voters = [self._voter(other) for other in self._controllers.values()]
        meta = storage.meta_properties(place.number, _directory(place, 0))
        data = {**spec.data_files, _META: meta, **storage.voters_file(self._version, voters)}
        return replace(spec, files=files, data_files=data)

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        names = {place.number: name for name, place in self._controllers.items()}
        async with self._connected(at, timeout_s) as node:
            first = await _quorum(node)
            end = max(replica.log_end_offset for replica in (*first.voters, *first.observers))
            quorum = first
            while quorum.high_watermark < end:
                await asyncio.sleep(_COMMITTED_POLL_S)
                quorum = await _quorum(node)
                if quorum.epoch != first.epoch:
                    raise Indefinite("leader-changed", f"epoch {first.epoch} ended while {at} was asked who votes")
            return {names.get(replica.node, str(replica.node)): replica.directory for replica in first.voters}

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        number = self._layout[node].number
        async with self._connected(through, timeout_s) as leader:
            quorum = await _quorum(leader)
            voter = next((replica for replica in quorum.voters if replica.node == number), None)
            if voter is None:
                raise Definite("voter-not-found", f"{through} lists no vote of {node}")
            await raft_voters.remove_voter(leader, number, voter.directory)

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        """By the id of the directory that its server has quorum.

        The leader remembers one that was removed for minutes, and would take it for a voter that has caught up.
        """
        place, directory = self._layout[spec.name], storage.directory_of(str(spec.data_files[_META])).hex()
        timeout_ms = max(round(timeout_s * 1e3) - _ANSWERS_EARLIER_MS, 1)
        async with self._connected(through, timeout_s) as leader:
            quorum = await _quorum(leader)
            if (place.number, directory) not in {(replica.node, replica.directory) for replica in quorum.observers}:
                raise Definite("not-following", f"{spec.name} has not fetched from {through}")
            endpoint = (LISTENER, *place.peer(CONTROLLER_PORT))
            await raft_voters.add_voter(leader, place.number, directory, endpoint, timeout_ms=timeout_ms)

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        if life is None:
            return spec
        place = self._layout[spec.name]
        return replace(spec, data_files={_META: storage.meta_properties(place.number, _directory(place, life))})

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        """Why a controller does not serve as a voter: it must vote, fetch and have everything that is committed."""
        try:
            async with asyncio.timeout(timeout_s):
                answers = await asyncio.gather(*(health.quorum_of(place) for place in self._controllers.values()))
        except (Definite, Indefinite, TimeoutError, OSError) as error:
            return str(error) or "a controller does not answer in time"
        quorum = next((quorum for quorum in answers if quorum is not None), None)
        return "no controller leads" if quorum is None else self._lacks(node, quorum)

    def _lacks(self, node: str, quorum: MetadataQuorum) -> str | None:
        number = self._layout[node].number
        replica = next((replica for replica in quorum.voters if replica.node == number), None)
        if replica is None:
            return f"{node} does not vote"
        now_ms = max(other.last_fetch_ms for other in (*quorum.voters, *quorum.observers))
        return None if health.follows(replica, quorum, now_ms) else f"{node} is behind the metadata of the leader"

    def _voter(self, place: Place) -> Voter:
        host, port = place.peer(CONTROLLER_PORT)
        return Voter(number=place.number, directory=_directory(place, 0), listener=LISTENER, host=host, port=port)

    @asynccontextmanager
    async def _connected(self, name: str, timeout_s: float) -> AsyncIterator[KafkaNode]:
        deadline = asyncio.get_running_loop().time() + timeout_s
        node = await open_node(*self._layout[name].dial(CLIENT_PORT), connect_timeout_s=timeout_s)
        try:
            async with asyncio.timeout_at(deadline):
                yield node
        except TimeoutError:
            raise Indefinite("timeout", f"not answered within {timeout_s:g} s") from None
        finally:
            node.close()


async def _quorum(node: KafkaNode) -> MetadataQuorum:
    try:
        return await node.describe_quorum()
    except ServerRefusal as refusal:
        if refusal.number != NOT_LEADER_OR_FOLLOWER:
            raise
        raise Definite("not-leader") from None


def _directory(place: Place, life: int) -> bytes:
    """The id of a directory: the same in every run, and a different one after every wipe."""
    return hashlib.sha256(f"{place.name}/{life}".encode()).digest()[:16]
