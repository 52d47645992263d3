"""A server killed while its writes are held back, so that they never happen; then a restart with the data kept.

A plain kill rarely hits the moment between an acknowledgement and its write. Here each write is held at the entry of
its system call (`harness/runtime/disks`), while the rest of the server goes on. `hold=` after the first held write the
server is killed, and the kernel skips the calls that are held. A server that acknowledges only what it has written
loses nothing. The proof is the tracer's log, in which these calls never return, and the hash of each of their files,
which is the same before and after.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof, Resolved, View
from fencepost.harness.faults.restarts import started_again, until
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.disks.availability import why_not
from fencepost.harness.runtime.disks.traced_node import EVERY_FILE, TracedNode
from fencepost.harness.runtime.disks.tree_copy import content_hash
from fencepost.harness.runtime.node import Node
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.disk.disk import released, traced_node

#: Longer than any fault: a held write must never happen.
_HELD_US: Final = 600_000_000
#: Longest wait for a first write; with `hold=` it stays below the conductor's limit for one act.
_WRITE_S: Final = 4.0
_LOOK_S: Final = 0.002


class LostWriteOptions(FaultOptions, frozen=True, kw_only=True):
    # The hold is a part of the injection, which has a time limit.
    hold: Annotated[Duration, about("time from the first write that is held back to the kill", most=seconds(4))] = (
        seconds(0.2)
    )
    files: Annotated[str, about("which files below the data directory: a pattern such as *.wal")] = EVERY_FILE


class LostWrite(FaultKind):
    name = "lost-write"
    about = "the server is killed while its writes are held back, so they are lost; then restarted"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = LostWriteOptions(for_=seconds(0.5))
    holds = frozenset({"process", "disk"})
    for_all = ("lost-write:one", "lost-write:leader")

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.CERTAIN, holds=True)

    def unavailable(self, placement: Placement) -> Refusal | None:
        return why_not(placement)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(LostWriteOptions)
        return Resolved(nodes=nodes, details={"hold_ms": options.hold // 10**6, "files": options.files})

    async def inject(self, act: Act) -> Proof:
        options, nodes = act.options(LostWriteOptions), act.nodes
        held: list[TracedNode] = []
        for node in nodes:
            traced = traced_node(act, node, calls="write", files=options.files, action=f"delay_enter={_HELD_US}")
            held.append(traced)
            act.undo(partial(released, traced))
            # Replacing the tracer would release the writes that it holds.
            await traced.begin(follow=False)

        def unwritten() -> list[str]:
            return [traced.node.name for traced in held if not traced.calls().unreturned]

        await until(lambda: not unwritten(), _WRITE_S, look_s=_LOOK_S)
        if names := unwritten():
            for traced in held:
                await traced.end()
            text = f"no server was killed: {', '.join(names)} wrote nothing for {_WRITE_S:g} s"
            return Proof(FaultOutcome.INDETERMINATE, text)
        await asyncio.sleep(options.hold / 1e9)
        before = {traced.node.name: _hashes(traced) for traced in held}
        await asyncio.gather(*(node.kill() for node in nodes))
        wrong: list[str] = []
        texts: list[str] = []
        for traced in held:
            await traced.end()
            calls, name = traced.calls(), traced.node.name
            if calls.count:
                wrong.append(f"{name}: {calls.count} writes that were held happened after all")
            after = _hashes(traced)
            wrong += [f"{name}: {path} changed" for path, digest in before[name].items() if after[path] != digest]
            texts.append(f"{name}: {_held_text(calls.unreturned, after, traced.node)}")
        text = "; ".join([*wrong, *texts])
        return Proof(FaultOutcome.INDETERMINATE if wrong else FaultOutcome.INSTALLED, text)

    async def heal(self, act: Act) -> Proof:
        return await started_again(act.nodes)


def _hashes(traced: TracedNode) -> dict[str, str]:
    """Hash the files with held writes, by path; only those that this machine sees by the same path."""
    hashes = {}
    for _, path in traced.calls().unreturned:
        if Path(path).is_relative_to(traced.node.place.data.resolve()) and Path(path).is_file():
            fd = os.open(path, os.O_RDONLY)
            try:
                hashes[path] = content_hash(fd)
            finally:
                os.close(fd)
    return hashes


def _held_text(unreturned: list[tuple[str, str]], hashes: Mapping[str, str], node: Node) -> str:
    counts = Counter(f"{call} of {os.path.relpath(path, node.place.data.resolve())}" for call, path in unreturned)
    calls = ", ".join(f"{count} {what}" for what, count in counts.most_common(4))
    kept = f"; its files kept their hashes ({', '.join(sorted(h[:8] for h in hashes.values()))})" if hashes else ""
    return f"killed with {len(unreturned)} writes held back, which never happened ({calls}){kept}"
