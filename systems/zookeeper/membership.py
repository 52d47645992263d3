"""Members of a ZooKeeper ensemble: dynamic reconfiguration (3.5.3 on).

Members can be changed where `reconfigEnabled` is set. A server then writes the configuration in force beside its own
file and names it there. So both lie in the data directory, where they survive a restart and vanish with a wipe. Only a
client that the ACL of /zookeeper/config allows may reconfigure, at first only a superuser. `skipACL` makes a superuser
unnecessary; no workload sets an ACL.

A new server follows without a vote, as an observer by its own file, until a request makes it a voter. The leader
refuses that unless a quorum of the new members keeps up. A removed server continues to run, without a vote.

The four-letter word `conf` shows who votes; a server answers it from the configuration in force, without a session.

Source: zookeeperReconfig.md, QuorumPeer, QuorumPeerConfig, PrepRequestProcessor and QuorumZooKeeperServer of 3.9.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract import releases
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.zookeeper import configuration
from fencepost.systems.zookeeper.question import SrvrQuestion, four_letter_word
from fencepost.systems.zookeeper.versions import JARS
from fencepost.systems.zookeeper.wire import reconfiguration
from fencepost.systems.zookeeper.wire.jute import Op
from fencepost.systems.zookeeper.wire.reconfiguration import server_line
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession, zxid_of

#: The first release with `reconfigEnabled` (ZOOKEEPER-2014).
FIRST: Final = (3, 5, 3)
_STATIC: Final = "zoo.cfg"
#: The members at the first start; later configurations stand in files that the server names itself.
_DYNAMIC: Final = "members.cfg"
_MOVED: Final = ("server.", "clientPort=", "clientPortAddress=")
_SKIP_ACL: Final = "-Dzookeeper.skipACL=yes"


def fixed(version: str) -> Refusal | None:
    """Why members of this release (or folder of jars; "" for an image) cannot change; None when they can."""
    if not version:
        return Refusal(
            "nobody knows before the start whether the ZooKeeper in an image can be reconfigured", "give --version"
        )
    release = JARS.given(Path(version))[0] if Path(version).is_dir() else version
    if releases.is_before(release, FIRST):
        return Refusal(f"ZooKeeper {release} has a fixed set of members", "3.5.3 and later can change it")
    return None


class ZooKeeperMembership:
    """`harness.contract.members.Membership`. `open_session` takes a place and a time-out in seconds.

    `sync_and_read` gives the reason why a new session on a node cannot sync and read, or None.
    """

    votes_last: Final = True
    only_leader_answers: Final = False
    ends_removed: Final = False

    def __init__(
        self,
        layout: Layout,
        *,
        open_session: Callable[[Place, float], Coroutine[Any, Any, ZooKeeperSession]],
        sync_and_read: Callable[[Place], Coroutine[Any, Any, str | None]],
    ) -> None:
        self._layout, self._open_session, self._sync_and_read = layout, open_session, sync_and_read

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        if "-cp" not in spec.argv:
            # An image with a command of its own, whose members are fixed.
            return spec
        place = self._layout[spec.name]
        static = "".join(
            f"{line}\n"
            for line in (
                *(line for line in spec.files[_STATIC].splitlines() if not line.startswith(_MOVED)),
                "reconfigEnabled=true",
                "standaloneEnabled=false",
                f"dynamicConfigFile={place.data / _DYNAMIC}",
            )
        )
        members = "".join(f"{self._line(name)}\n" for name in self._layout)
        before, after = str(place.folder / _STATIC), str(place.data / _STATIC)
        argv = [after if word == before else word for word in spec.argv]
        argv.insert(argv.index("-cp"), _SKIP_ACL)
        return replace(
            spec,
            argv=tuple(argv),
            files={name: text for name, text in spec.files.items() if name != _STATIC},
            data_files={**spec.data_files, _STATIC: static, _DYNAMIC: members},
        )

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        """The voters' ids are the servers' numbers, which never change."""
        names = {place.number: name for name, place in self._layout.items()}
        try:
            async with asyncio.timeout(timeout_s):
                conf = await four_letter_word(*self._layout[at].dial(configuration.CLIENT_PORT), b"conf")
        except (OSError, TimeoutError) as error:
            raise Indefinite("not-told", str(error) or f"not answered within {timeout_s:g} s") from None
        servers = reconfiguration.read_servers(conf)
        if not servers:
            raise Definite("not-told", conf.strip()[:100])
        return {
            names.get(number, str(number)): str(number)
            for number, line in servers.items()
            if reconfiguration.votes(line)
        }

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        await self._reconfigure(reconfiguration.leaving(self._layout[node].number), through, timeout_s)

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        """Add a server that follows; a leader would accept one that does not run, if a quorum of members keeps up."""
        if not await self._follows(spec.name, timeout_s):
            raise Definite("not-following", f"{spec.name} follows nobody yet")
        await self._reconfigure(reconfiguration.joining(self._line(spec.name)), through, timeout_s)

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        """Let a server join. One that keeps its data has a file without its own name, with which no server starts.

        So it gets another file, beside its data, and learns later changes from the other servers.
        """
        place = self._layout[spec.name]
        others = [name for name in self._layout if name in voters and name != spec.name]
        lines = [*(self._line(name) for name in others), self._line(spec.name, "observer")]
        data_files = {**spec.data_files, _DYNAMIC: "".join(f"{line}\n" for line in lines)}
        files = {name: text for name, text in spec.files.items() if name not in (_STATIC, _DYNAMIC)}
        if life is None:
            static = str(data_files[_STATIC]).replace(str(place.data / _DYNAMIC), str(place.folder / _DYNAMIC))
            files |= {_STATIC: static, _DYNAMIC: str(data_files[_DYNAMIC])}
        home = place.data if life is not None else place.folder
        either = (str(place.data / _STATIC), str(place.folder / _STATIC))
        argv = tuple(str(home / _STATIC) if word in either else word for word in spec.argv)
        return replace(spec, argv=argv, files=files, data_files=data_files)

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._sync_and_read(self._layout[node])
        except TimeoutError:
            return f"{node} does not sync and read within {timeout_s:g} s"

    async def _follows(self, node: str, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                answer = await SrvrQuestion(node, *self._layout[node].dial(configuration.CLIENT_PORT)).ask()
        except (OSError, TimeoutError, ValueError):
            return False
        return answer.detail in ("follower", "observer")

    def _line(self, name: str, role: str = "participant") -> str:
        place = self._layout[name]
        host, peer = place.peer(configuration.PEER_PORT)
        return server_line(
            place.number,
            host=host,
            ports=(peer, place.peer(configuration.ELECTION_PORT)[1]),
            client=f"{place.address}:{configuration.CLIENT_PORT}",
            role=role,
        )

    async def _reconfigure(self, record: bytes, through: str, timeout_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + timeout_s
        session = await self._open_session(self._layout[through], timeout_s)
        try:
            async with asyncio.timeout_at(deadline):
                await session.ask(Op.RECONFIG, record, zxid_of)
        except TimeoutError:
            raise Indefinite("timeout", f"not answered within {timeout_s:g} s") from None
        finally:
            session.close()
