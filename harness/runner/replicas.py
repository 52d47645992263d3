"""Reads what each replica alone holds once the load is over, until all agree or nobody can wait any longer.

A replica may lag when the load ends. So all are read again and again: what differs still at the end, and did not change
for a while, differs for good. A server that is gone, or does not answer, is recorded with the reason.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.history import ReplicaEvent
from fencepost.harness.runner.servers import Servers
from fencepost.harness.runtime.node import Node, NodeState

#: How long replicas may take to agree; each of them may take so long for one answer.
_LIMIT_S: Final = 14.0
_ANSWER_S: Final = 8.0
_PAUSE_S: Final = 0.5
#: Keys that differ of one subject, of which the history has rows; the digest of all keys shows that there are more.
_KEYS_MAX: Final = 20
_BYTES: Final = 8
#: A longer text is shown as its digest.
_TEXT_MAX: Final = 80
_GONE: Final = "its server does not run"


class _Reading(NamedTuple):
    """What a node answered first at `asked_ns`, and again ever since; `why` it did not answer."""

    asked_ns: int
    states: Mapping[str, tuple[ReplicaState, str]]
    why: str = ""

    @property
    def digests(self) -> dict[str, str]:
        return {subject: digest for subject, (_, digest) in self.states.items()}


async def record_replicas(servers: Servers, *, stopped: Callable[[], bool]) -> None:
    """Read every replica until all agree, then record what each holds; nothing where the system cannot tell."""
    if servers.system.replica_states is None or stopped():
        return
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _LIMIT_S
    nodes = [node for node in servers.runtime.nodes.values() if node.state is not NodeState.NEW]
    readings: dict[str, _Reading] = {}
    while True:
        for node, latest in zip(nodes, await asyncio.gather(*(_read(servers, n) for n in nodes)), strict=True):
            before = readings.get(node.name)
            same = before is not None and not latest.why and not before.why and before.digests == latest.digests
            readings[node.name] = latest._replace(asked_ns=before.asked_ns) if before and same else latest
        if _agree(list(readings.values())) or loop.time() > until_s or stopped():
            break
        await asyncio.sleep(_PAUSE_S)
    _record(servers, nodes, readings)


async def _read(servers: Servers, node: Node) -> _Reading:
    asked_ns, read = servers.recorder.now_ns(), servers.system.replica_states
    assert read is not None, "the caller looked"
    if node.state is not NodeState.RUNNING:
        return _Reading(asked_ns, {}, _GONE)
    try:
        async with asyncio.timeout(_ANSWER_S):
            states = await read(node.place)
    except TimeoutError:
        return _Reading(asked_ns, {}, f"not answered within {_ANSWER_S:g} s")
    except Exception as error:
        # Whatever went wrong, its state is not known: that is recorded, with the reason.
        return _Reading(asked_ns, {}, f"{type(error).__name__}: {error}"[:200])
    return _Reading(asked_ns, {state.subject: (state, _digest(sorted(state.entries.items()))) for state in states})


def _agree(readings: list[_Reading]) -> bool:
    """Whether nothing is left to wait for; a server that does not run is not waited for."""
    of_subject: dict[str, set[str]] = {}
    for reading in readings:
        if reading.why not in ("", _GONE):
            return False
        for subject, digest in reading.digests.items():
            of_subject.setdefault(subject, set()).add(digest)
    return all(len(digests) == 1 for digests in of_subject.values())


def _record(servers: Servers, nodes: list[Node], readings: Mapping[str, _Reading]) -> None:
    incarnations = {node.name: max(node.incarnation, 0) for node in nodes}

    def record(node: str, subject: str, **fields: str | int | None) -> None:
        reading = readings[node]
        servers.recorder.record(
            ReplicaEvent,
            node=node,
            incarnation=incarnations[node],
            asked_ns=reading.asked_ns,
            subject=subject,
            **fields,
        )

    subjects = sorted({subject for reading in readings.values() for subject in reading.states})
    for node, reading in readings.items():
        if reading.why:
            record(node, "", detail=reading.why)
    for subject in subjects:
        states = {node: r.states[subject] for node, r in readings.items() if subject in r.states}
        for node, (state, digest) in states.items():
            record(node, subject, value=digest, position=state.position)
        if len({digest for _, digest in states.values()}) > 1:
            entries = {node: state.entries for node, (state, _) in states.items()}
            for key in _differing(list(entries.values()))[:_KEYS_MAX]:
                for node, held in entries.items():
                    record(node, subject, key=key, value=_short(held.get(key)))


def _differing(entries: list[Mapping[str, str]]) -> list[str]:
    """The keys of which not all of these hold the same."""
    keys = sorted({key for held in entries for key in held})
    return [key for key in keys if len({held.get(key) for held in entries}) > 1]


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= _TEXT_MAX else f"{len(text)} characters of digest {_digest(text)}"


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[: 2 * _BYTES]
