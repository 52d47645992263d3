"""One file of a stopped server damaged: bits flipped, the end cut off, or the tail zeroed; then the server is started.

It breaks a promise that every server relies on, that a disk returns what was written: so it keeps to one minority of
the voters for the whole run, unless the plan says otherwise. The run's seed decides which of the files that fit
`files=` is damaged, and where. The proof names the file, the place, and the hashes before and after; the detail
`damaged` lists the files, as "node:path".

Healing looks at what the server did with the damaged file. If the server refused it, the files are put back as they
were: it ended and had never served, or it neither serves nor ends and has written nothing (Consul tries again for
ever). If the server served with it, the file is the server's own by now and stays: what it wrote since may be counted
on by others.
"""

import asyncio
import fnmatch
import os
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import about, seconds
from fencepost.harness.faults.fault_options import LastingOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Act,
    Cluster,
    FaultKind,
    FaultSpec,
    NotUndone,
    Proof,
    Resolved,
    View,
    refuse_foreign,
)
from fencepost.harness.faults.restarts import is_ready, started_again
from fencepost.harness.history import DiskEffect, Effects, FaultOutcome, Stops
from fencepost.harness.runtime.disks.tree_copy import TreeCopy, content_hash, extents, tree_hashes
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Need, Placement

_MOST: Final = 1 << 20
#: The options that only some kinds of damage have.
_OPTIONS: Final = {"flip": ("bits",), "truncate": (), "tail": ("bytes",)}
#: How long a server may take to serve, or to refuse its files; below the conductor's limit for one act.
_SETTLED_S: Final = 7.0
_LOOK_S: Final = 0.05


class DamageOptions(LastingOptions, frozen=True, kw_only=True):
    kind: Annotated[
        Literal["flip", "truncate", "tail"], about("flip bits, cut the end off, or make the tail read as zeros")
    ] = "flip"
    files: Annotated[str, about("which files below the data directory: a pattern such as *.wal")] = "*"
    bits: Annotated[int, about("how many bits kind=flip turns over", least=1, most=_MOST)] = 8
    bytes: Annotated[int, about("how many bytes at the end kind=tail zeroes", least=1, most=_MOST)] = 4096


class DamageFiles(FaultKind):
    name = "damage"
    about = "a server is killed, one of its files is damaged, and it is restarted on it"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = DamageOptions(for_=seconds(3))
    holds = frozenset({"process", "disk"})
    #: One node, the same for the whole run and the same that loses power.
    for_all = ("damage:one:kind=flip", "damage:one:kind=tail", "damage:one:kind=truncate")
    draws = True
    needs = frozenset({Need.FILES})

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE, disk=DiskEffect.DAMAGED)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        return refuse_foreign(spec, spec.own(DamageOptions).kind, _OPTIONS)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(DamageOptions)
        details: dict[str, str | int] = {"kind": options.kind, "files": options.files, "damage_seed": seed}
        if options.kind == "flip":
            details["bits"] = options.bits
        if options.kind == "tail":
            details["tail_bytes"] = options.bytes
        return Resolved(nodes=nodes, seed=seed, details=details)

    async def inject(self, act: Act) -> Proof:
        nodes = act.nodes
        await asyncio.gather(*(node.kill() for node in nodes))
        texts: list[str] = []
        harmed: list[str] = []
        missing: list[str] = []
        for node in nodes:
            copy = TreeCopy(node.place.data)
            left: dict[str, str] = {}
            act.undo(partial(_settle, node, copy, left, act))
            await asyncio.to_thread(copy.take_all)
            draw = random.Random(f"{act.resolved.seed}/{node.name}")
            change = await asyncio.to_thread(damage, node.place.data, act.options(DamageOptions), draw)
            if change is None:
                missing.append(f"{node.name}: no file that fits has any data")
            else:
                texts.append(f"{node.name}: {change}")
                harmed.append(f"{node.name}:{change.partition(': ')[0]}")
            left |= await asyncio.to_thread(tree_hashes, node.place.data)
        for node in nodes:
            await node.start()
        details = {"damaged": ", ".join(harmed)}
        if missing:
            return Proof(FaultOutcome.INDETERMINATE, "; ".join([*missing, *texts]), details)
        return Proof(FaultOutcome.INSTALLED, "; ".join(texts), details)

    async def heal(self, act: Act) -> Proof:
        return await started_again(act.nodes)


async def _settle(node: Node, copy: TreeCopy, left: Mapping[str, str], act: Act) -> str:
    """Put the files back if the server refused them. The copy is kept until then, for the next attempt.

    Args:
        left: the hashes of all files as the damage left them.
    """
    serves = await _settled(node, act.cluster)
    served = serves or node.name not in act.cluster.view().unready
    text = f"{node.name} had refused its files and ended; they are as before"
    if node.state is not NodeState.DEAD and not served and await _is_untouched(node, left):
        text = f"{node.name} neither served on its files nor wrote any, so it was ended; they are as before"
        await node.kill()
        if not await _is_untouched(node, left):
            await node.start()
    if node.state is NodeState.DEAD and not served:
        if not await asyncio.to_thread(_put_back, node, copy):
            raise NotUndone(f"{node.name}: its files are not what they were")
    elif served:
        text = f"{node.name} {'serves' if serves else 'served'} on its damaged files, which stay"
    else:
        raise NotUndone(f"{node.name} neither serves on its damaged files nor ended within {_SETTLED_S:g} s")
    copy.close()
    return text


async def _is_untouched(node: Node, left: Mapping[str, str]) -> bool:
    try:
        return await asyncio.to_thread(tree_hashes, node.place.data) == left
    except FileNotFoundError:
        # The server took a file away while the others were read.
        return False


async def _settled(node: Node, cluster: Cluster) -> bool:
    """Wait until the server serves (True), ends, or takes too long for either."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _SETTLED_S
    while node.state is not NodeState.DEAD and loop.time() < deadline_s:
        if await is_ready(node, cluster):
            return True
        await asyncio.sleep(_LOOK_S)
    return False


def damage(data: Path, harm: DamageOptions, draw: random.Random) -> str | None:
    """Damage one file below `data` as `harm` says.

    Returns:
        What was done, in one sentence; None when no file that fits has data to damage.
    """
    fitting = []
    for folder, _, names in os.walk(data):
        for name in sorted(names):
            path = Path(folder, name)
            if fnmatch.fnmatchcase(os.path.relpath(path, data), harm.files) and _data_end(path):
                fitting.append(path)
    if not fitting:
        return None
    path = draw.choice(sorted(fitting))
    fd = os.open(path, os.O_RDWR)
    try:
        before = content_hash(fd)
        done = _damage(fd, _data_end(path), harm, draw)
        after = content_hash(fd)
    finally:
        os.close(fd)
    if after == before:
        # Zeros that were cut off, or a tail of zeros.
        return None
    return f"{os.path.relpath(path, data)}: {done}; its hash was {before[:8]} and is {after[:8]}"


def _damage(fd: int, end: int, harm: DamageOptions, draw: random.Random) -> str:
    """Damage an open file. `end` is where its data ends: a preallocated file may be much longer."""
    if harm.kind == "truncate":
        at = draw.randrange(end)
        os.ftruncate(fd, at)
        return f"cut off at byte {at} of {end} written"
    if harm.kind == "tail":
        count = min(harm.bytes, end)
        os.pwrite(fd, bytes(count), end - count)
        return f"its last {count} bytes written, from {end - count}, read as zeros"
    places = sorted({draw.randrange(end * 8) for _ in range(harm.bits)})
    for place in places:
        byte = os.pread(fd, 1, place // 8)[0]
        os.pwrite(fd, bytes([byte ^ 1 << place % 8]), place // 8)
    return f"{len(places)} bits flipped, at bytes {', '.join(str(place // 8) for place in places[:8])}"


def _data_end(path: Path) -> int:
    """Return the offset behind the last byte that is not zero."""
    fd = os.open(path, os.O_RDONLY)
    try:
        last = 0
        for start, end in extents(fd):
            data = os.pread(fd, end - start, start).rstrip(b"\0")
            last = start + len(data) if data else last
        return last
    finally:
        os.close(fd)


def _put_back(node: Node, copy: TreeCopy) -> bool:
    copy.put_back()
    return tree_hashes(node.place.data) == dict(copy.hashes())
