"""What a server says of its Raft groups: `/raftz` of its monitoring port, one connection for each question.

The server answers from its own state and asks nobody, so a server that is cut off answers too. It reads role, term and
leader of a group under one lock (monitor.go, Raftz), so the epoch of a leader is exact.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fencepost.harness.contract.system import Answer, ReplicaState
from fencepost.harness.history import Claim
from fencepost.harness.http import connection as http
from fencepost.harness.runtime.node import Place
from fencepost.systems.nats.configuration import ACCOUNT, MONITOR_PORT, SYSTEM_ACCOUNT, node_of
from fencepost.systems.nats.stream import MAIN

SOURCE: Final = "raftz"
#: The subjects of beliefs: the leader of the stream's group, and that of the group that places streams.
STREAM_LEADER: Final = "stream"
META_LEADER: Final = "meta"
META_GROUP: Final = "_meta_"
_LEADER: Final = "LEADER"


class RaftGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group as one of its members sees it: by node the peers' ids; `leader` is "" while none is known."""

    leads: bool
    term: int
    leader: str
    size: int
    quorum: int
    members: Mapping[str, str] = {}


class NoAnswer(Exception):
    """The server did not answer; the text says what happened."""


async def get(address: str, port: int, path: str) -> Any:
    """The JSON that the monitoring port answers; raises NoAnswer. The caller bounds the wait by cancelling."""
    try:
        return json.loads((await http.ask(address, port, path)).body or b"null")
    except (OSError, ValueError) as error:
        raise NoAnswer(str(error)) from None


async def group(place: Place, subject: str, name: str | None = None) -> RaftGroup | None:
    """The group of this subject as this server sees it; None while it has no replica of it. Raises NoAnswer.

    Args:
        name: the group of the stream where that is known (`stream_group`); else it is asked for first.
    """
    address = place.dial(MONITOR_PORT)
    if subject == META_LEADER:
        account, name = SYSTEM_ACCOUNT, META_GROUP
    else:
        account, name = ACCOUNT, name or await stream_group(place)
    answer = await get(*address, f"/raftz?acc={account}&group={name}") if name else None
    state = ((answer or {}).get(account) or {}).get(name)
    if state is None:
        return None
    return parsed_group(state, place.name)


def parsed_group(state: Any, node: str) -> RaftGroup:
    """The group that the server of this node describes, by the names of nodes."""
    peers = {known["name"]: peer for peer, known in (state.get("peers") or {}).items()}
    members = {node: state["id"], **{node_of(name): peer for name, peer in peers.items()}}
    names = {peer: name for name, peer in members.items()}
    leader = state.get("leader") or ""
    return RaftGroup(
        leads=state["state"] == _LEADER,
        term=state["term"],
        leader=names.get(leader, leader),
        size=state["size"],
        quorum=state["quorum_needed"],
        members=members,
    )


async def groups(place: Place) -> dict[str, RaftGroup]:
    """By name: the meta group and those of the clients' account of which this server is a member. Raises NoAnswer."""
    by_name: dict[str, RaftGroup] = {}
    for account in (SYSTEM_ACCOUNT, ACCOUNT):
        answer = await get(*place.dial(MONITOR_PORT), f"/raftz?acc={account}")
        for name, state in ((answer or {}).get(account) or {}).items():
            by_name[name] = parsed_group(state, place.name)
    return by_name


async def streams(place: Place) -> dict[str, str]:
    """By name of a stream that this server has a replica of: its group, or "" where it is the only one."""
    answer = await get(*place.dial(MONITOR_PORT), f"/jsz?acc={ACCOUNT}&streams=true&raft=true")
    return {
        stream["name"]: str(stream.get("stream_raft_group") or "")
        for account in (answer or {}).get("account_details") or ()
        for stream in account.get("stream_detail") or ()
    }


async def replica_states(place: Place) -> list[ReplicaState]:
    """How much each stream holds on this server alone: its sequences, messages and bytes. Raises NoAnswer."""
    answer = await get(*place.dial(MONITOR_PORT), f"/jsz?acc={ACCOUNT}&streams=true")
    return [
        ReplicaState(
            entries={name: str(stream["state"][name]) for name in ("first_seq", "last_seq", "messages", "bytes")},
            subject=f"stream {stream['name']}",
        )
        for account in (answer or {}).get("account_details") or ()
        for stream in account.get("stream_detail") or ()
    ]


async def stream_group(place: Place) -> str | None:
    """The group of the main stream; None while this server has no replica of it, or the only one."""
    held = await streams(place)
    return next((group for name, group in held.items() if name in MAIN), "") or None


class RaftzQuestion:
    """The `Question` to one server; questions share nothing, so any number may be open."""

    def __init__(self, place: Place, subject: str) -> None:
        self._place, self._subject = place, subject
        self._group: str | None = None

    async def ask(self) -> Answer:
        if self._subject == STREAM_LEADER and self._group is None:
            self._group = await stream_group(self._place)
        view = await group(self._place, self._subject, self._group)
        if view is None:
            # A server that gets a replica again may be in another group.
            self._group = None
            return Answer(claims=Claim.NO, source=SOURCE, detail="no replica here")
        return Answer(
            claims=Claim.YES if view.leads else Claim.NO,
            source=SOURCE,
            epoch=view.term,
            epoch_exact=view.leads,
            leader=view.leader or None,
            detail=f"{view.quorum} of {view.size}",
        )

    async def close(self) -> None:
        pass
