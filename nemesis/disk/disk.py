"""Disks of single nodes that are slow, fail, or are full, while the server runs: on unmodified programs.

Slow and failing calls are made by strace on the server's own calls (`harness/runtime/disks`); `calls=` chooses them
by kind and `files=` by a pattern of paths below the data directory ("*.wal"). `times=1` hits the first one alone, as a
disk that stalls once: strace counts by thread, so the tracer is ended as soon as so many were hit. A full disk is the
limit of the data directory set to what is used. The proof counts, in the tracer's log, the calls that were delayed or
failed, or tries to write. A server that ends itself over it is started again by healing.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import Cluster, FaultKind, FaultSpec, Proof, Resolved, Skip, View, refuse_foreign
from fencepost.harness.faults.targets import NODE_TARGETS, choose_nodes
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.disks import data_limit
from fencepost.harness.runtime.disks.availability import why_not
from fencepost.harness.runtime.disks.trace_log import Calls
from fencepost.harness.runtime.disks.traced_node import EVERY_FILE, TracedNode
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement

_MS: Final = 10**6
#: Until the first call was hit; below the conductor's limit for one act.
_HIT_S: Final = 4.0
_LOOK_S: Final = 0.02
#: Within which a server that ends over an error of its disk has ended, on a busy machine too.
_END_S: Final = 2.0
#: A call that has not returned for so long is being held back, where each one is delayed for longer than that.
_HELD_S: Final = 1.0
#: The options that only some kinds of trouble have.
_OPTIONS: Final = {
    "slow": ("delay", "calls", "files", "times"),
    "failing": ("error", "calls", "files", "times"),
    "full": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """What a disk does: `kind` of the options; which calls on which files, and how many of them (None: all)."""

    kind: str
    calls: str
    files: str
    delay_ms: int
    error: str
    times: int | None

    @property
    def details(self) -> dict[str, str | int]:
        """Those that count for this kind, as the history has them."""
        found: dict[str, str | int] = {"kind": self.kind}
        if self.kind != "full":
            found |= {"calls": self.calls, "files": self.files}
        if self.kind == "slow":
            found["delay_ms"] = self.delay_ms
        if self.kind == "failing":
            found["error"] = self.error
        if self.times is not None:
            found["times"] = self.times
        return found


@dataclass(slots=True)
class _Bad:
    """What one fault in force has to undo."""

    traced: list[TracedNode] = field(default_factory=list)
    #: Those that end tracers once enough calls were hit.
    ending: list[asyncio.Task[None]] = field(default_factory=list)
    #: Node to the limit of its data directory as it was.
    limits: dict[str, int] = field(default_factory=dict)


class DiskOptions(FaultOptions, frozen=True, kw_only=True):
    kind: Annotated[Literal["slow", "failing", "full"], about("calls delayed, calls failed, or no room left")] = "slow"
    delay: Annotated[Duration, about("how long kind=slow holds each call", least=seconds(0.001), most=seconds(60))] = (
        seconds(0.1)
    )
    error: Annotated[Literal["EIO", "ENOSPC", "EROFS", "EDQUOT"], about("what kind=failing answers")] = "EIO"
    calls: Annotated[Literal["sync", "write", "read", "fsync", "fdatasync"], about("which calls of the server")] = (
        "sync"
    )
    files: Annotated[str, about("files below the data directory, by a pattern such as *.wal")] = EVERY_FILE
    times: Annotated[
        int | UnsetType,
        about("how many calls of each node, from the first on; every one without it", least=1, most=1000),
    ] = UNSET


class Disk(FaultKind):
    name = "disk"
    about = "a disk that is slow, fails single calls, or is full, below a server that runs"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = DiskOptions(for_=seconds(6))
    holds = frozenset({"disk"})
    for_all = ("disk:leader:kind=slow", "disk:one:kind=failing", "disk:one:kind=full")

    def __init__(self) -> None:
        self._bad: dict[int, _Bad] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(holds=spec.own(DiskOptions).kind != "full")

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        options = spec.own(DiskOptions)
        if options.kind == "full" and placement.closed_files is not None:
            return Refusal(
                placement.closed_files.reason,
                f"{placement.closed_files.remedy}, or kind=failing:error=ENOSPC, which fails single calls",
            )
        if options.delay % _MS:
            return Refusal(f"delay={options.delay} is finer than the history tells", "give whole milliseconds")
        return refuse_foreign(spec, options.kind, _OPTIONS)

    def unavailable(self, placement: Placement) -> Refusal | None:
        return why_not(placement)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        chosen = choose_nodes(spec.target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        options = spec.own(DiskOptions)
        trouble = _Trouble(
            kind=options.kind,
            calls=options.calls,
            files=options.files,
            delay_ms=options.delay // _MS if options.kind == "slow" else 0,
            error=options.error,
            times=None if options.times is UNSET else options.times,
        )
        return Resolved(nodes=chosen, means=trouble, details=trouble.details)

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        bad = self._bad[fault_id] = _Bad()
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        trouble = resolved.own(_Trouble)
        if trouble.kind == "full":
            return await _fill(nodes, bad)
        delay_ms = trouble.delay_ms
        action = f"delay_enter={delay_ms * 1000}" if trouble.kind == "slow" else f"error={trouble.error}"
        if trouble.times is not None:
            action += f":when=1..{trouble.times}"
        for node in nodes:
            traced = TracedNode(
                node,
                calls=trouble.calls,
                files=trouble.files,
                action=action,
                logs=node.place.kept / f"strace-{fault_id}.log",
            )
            # Before it begins, so that healing ends it whatever happens.
            bad.traced.append(traced)
            await traced.begin()
            if trouble.times is not None:
                bad.ending.append(asyncio.create_task(_let_go(traced, trouble.times)))
        missed = await _await_hits(bad.traced, holds=delay_ms > _HELD_S * 1000)
        text = "; ".join(_told(traced, holds=delay_ms > _HELD_S * 1000) for traced in bad.traced)
        if missed:
            return Proof(FaultOutcome.INDETERMINATE, f"no call was hit within {_HIT_S:g} s: {text}")
        return Proof(FaultOutcome.INSTALLED, text)

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        # Kept until all is proven: healing may be asked for again.
        bad = self._bad.get(fault_id, _Bad())
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        texts, wrong = [], []
        for task in bad.ending:
            task.cancel()
        await asyncio.gather(*bad.ending, return_exceptions=True)
        for traced in bad.traced:
            found = await traced.end()
            wrong += [found] if found else []
            texts.append(_told(traced))
        if resolved.own(_Trouble).kind == "failing":
            await asyncio.gather(*(_await_end(t.node) for t in bad.traced if t.calls().count))
        for node in nodes:
            if node.name in bad.limits:
                data_limit.set_limit(node.place.data, bad.limits[node.name])
                full = data_limit.refuses_writes(node.place.data)
                wrong += [f"{node.name}: its data directory still takes no write"] if full else []
                texts.append(f"{node.name}: {bad.limits[node.name] >> 20} MiB again")
        # Nobody tells which of them met the limit: one that ends over it may have yet to end.
        await asyncio.gather(*(_await_end(node) for node in nodes if node.name in bad.limits))
        started, down = await restart_the_dead(nodes, fault_id, cluster)
        text = "; ".join([*texts, *started]) or "nothing was done"
        if wrong or down:
            return Proof(FaultOutcome.INDETERMINATE, f"{'; '.join([*wrong, *down])} ({text})")
        self._bad.pop(fault_id, None)
        return Proof(FaultOutcome.HEALED, text)


async def _let_go(traced: TracedNode, times: int) -> None:
    """End the tracer once so many calls were hit; another thread's call that it held just then goes on."""
    while traced.calls().count < times:
        await asyncio.sleep(_LOOK_S)
    await traced.end()


async def _await_end(node: Node) -> None:
    """A server that ends over an error does so a moment after the call; one that lives by then goes on."""
    deadline = asyncio.get_running_loop().time() + _END_S
    while node.state is not NodeState.DEAD and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_LOOK_S)


async def restart_the_dead(nodes: list[Node], fault_id: int, cluster: Cluster) -> tuple[list[str], list[str]]:
    """Start servers that ended, but for those on which another fault is at work; what was done, and what is wrong."""
    done, wrong = [], []
    for node in nodes:
        if node.state is not NodeState.DEAD:
            continue
        if node.name in cluster.disturbed(fault_id):
            done.append(f"{node.name} is down, and left to another fault")
            continue
        await node.start()
        if (await node.evidence()).state is NodeState.RUNNING:
            done.append(f"{node.name} had ended, and was started again as process {node.pid}")
        else:
            wrong.append(f"{node.name} does not run after its restart")
    return done, wrong


def affected_words(calls: Calls) -> str:
    """ "37 calls (30 fdatasync, 7 fsync)"."""
    names = ", ".join(f"{count} {name}" for name, count in calls.affected.most_common())
    return f"{calls.count} calls ({names})" if names else "0 calls"


async def _fill(nodes: list[Node], bad: _Bad) -> Proof:
    texts, taking = [], []
    for node in nodes:
        data = node.place.data
        if not data_limit.is_limited(data):
            return Proof(FaultOutcome.INDETERMINATE, f"{node.name}: its data directory has no limit of its own")
        used, limit = data_limit.byte_counts(data)
        bad.limits[node.name] = limit
        data_limit.fill(data)
        taking += [] if data_limit.refuses_writes(data) else [node.name]
        texts.append(f"{node.name}: limited to the {used >> 20} of {limit >> 20} MiB in use, a write is refused")
    if taking:
        return Proof(FaultOutcome.INDETERMINATE, f"a write of ours was taken: {', '.join(taking)}")
    return Proof(FaultOutcome.INSTALLED, "; ".join(texts))


async def _await_hits(traced: list[TracedNode], *, holds: bool) -> list[TracedNode]:
    """Those of which no call was hit in time, or, where a call `holds` for longer than that, is being held back."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + _HIT_S
    since_s: dict[str, float] = {}
    while True:
        missed = []
        for one in traced:
            calls = one.calls()
            if not (holds and calls.unreturned):
                since_s.pop(one.node.name, None)
            held = holds and calls.unreturned and loop.time() - since_s.setdefault(one.node.name, loop.time()) > _HELD_S
            missed += [] if calls.count or held else [one]
        if not missed or loop.time() > deadline_s:
            return missed
        await asyncio.sleep(_LOOK_S)


def _told(traced: TracedNode, *, holds: bool = False) -> str:
    calls = traced.calls()
    took = ""
    if holds and calls.unreturned and not calls.count:
        return f"{traced.node.name}: {calls.unreturned[0][0]} is being held back, for more than {_HELD_S:g} s so far"
    if calls.took_s:
        took = f", each {min(calls.took_s) * 1e3:.1f} ms or more, median {median(calls.took_s) * 1e3:.1f}"
    again = f"; the tracer was replaced {traced.replaced} times for new files" if traced.replaced else ""
    return f"{traced.node.name}: {affected_words(calls)} hit{took}{again}"
