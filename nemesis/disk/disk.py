"""Disks of chosen nodes that are slow, fail, or are full, while the server runs; the server itself is not changed.

strace delays or fails the server's own system calls (`harness/runtime/disks`). `calls=` chooses them by kind and
`files=` by a pattern of paths below the data directory ("*.wal"). `times=1` hits the first call only, like a disk that
stalls once: strace counts per thread, so the tracer is ended as soon as enough calls were hit. A full disk is made by
lowering the size limit of the data directory to what is used.

The proof counts the delayed or failed calls in the tracer's log, or tries to write to the full disk. A server that ends
because of the fault is started again by healing.
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
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
    refuse_foreign,
)
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.disks import data_limit
from fencepost.harness.runtime.disks.availability import why_not
from fencepost.harness.runtime.disks.trace_log import Calls
from fencepost.harness.runtime.disks.traced_node import EVERY_FILE, TracedNode
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement

_MS: Final = 10**6
#: Longest wait for the first call that is hit; below the conductor's limit for one act.
_HIT_S: Final = 4.0
_LOOK_S: Final = 0.02
#: A server that ends because of a disk error has ended within this time, even on a busy machine.
_END_S: Final = 2.0
#: Where each call is delayed for longer than this, a call that has not returned by then is being held.
_HELD_S: Final = 1.0
#: The options that only some kinds of trouble have.
_OPTIONS: Final = {
    "slow": ("delay", "calls", "files", "times"),
    "failing": ("error", "calls", "files", "times"),
    "full": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """What the disk does: the option `kind`; to which calls on which files; how many of them (None: all)."""

    kind: str
    calls: str
    files: str
    delay_ms: int
    error: str
    times: int | None

    @property
    def details(self) -> dict[str, str | int]:
        """The figures that matter for this kind, as the history records them."""
        details: dict[str, str | int] = {"kind": self.kind}
        if self.kind != "full":
            details |= {"calls": self.calls, "files": self.files}
        if self.kind == "slow":
            details["delay_ms"] = self.delay_ms
        if self.kind == "failing":
            details["error"] = self.error
        if self.times is not None:
            details["times"] = self.times
        return details


@dataclass(slots=True)
class _Bad:
    """What one fault in force has to undo."""

    traced: list[TracedNode] = field(default_factory=list)
    #: Tasks that end tracers once enough calls were hit.
    ending: list[asyncio.Task[None]] = field(default_factory=list)
    #: Node to the limit of its data directory as it was.
    limits: dict[str, int] = field(default_factory=dict)


class DiskOptions(FaultOptions, frozen=True, kw_only=True):
    kind: Annotated[Literal["slow", "failing", "full"], about("calls are delayed, calls fail, or no room is left")] = (
        "slow"
    )
    delay: Annotated[Duration, about("how long kind=slow delays each call", least=seconds(0.001), most=seconds(60))] = (
        seconds(0.1)
    )
    error: Annotated[Literal["EIO", "ENOSPC", "EROFS", "EDQUOT"], about("error that kind=failing returns")] = "EIO"
    calls: Annotated[
        Literal["sync", "write", "read", "fsync", "fdatasync"],
        about("which system calls of the server are hit; sync is every call of the fsync family"),
    ] = "sync"
    files: Annotated[str, about("which files below the data directory: a pattern such as *.wal")] = EVERY_FILE
    times: Annotated[
        int | UnsetType,
        about("how many calls of each node are hit, from the first on; all unless given", least=1, most=1000),
    ] = UNSET


class Disk(FaultKind):
    name = "disk"
    about = "the disk below a running server is slow, fails single calls, or is full"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = DiskOptions(for_=seconds(6))
    holds = frozenset({"disk"})
    for_all = ("disk:leader:kind=slow", "disk:one:kind=failing", "disk:one:kind=full")

    def __init__(self) -> None:
        self._bad: dict[int, _Bad] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        full = spec.own(DiskOptions).kind == "full"
        # A server that cannot write ends itself.
        return Effects(ends=full, holds=not full)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        options = spec.own(DiskOptions)
        if options.kind == "full" and placement.closed_files is not None:
            return Refusal(
                placement.closed_files.reason,
                f"{placement.closed_files.remedy}, or kind=failing:error=ENOSPC, which fails single calls",
            )
        if options.delay % _MS:
            return Refusal(
                f"delay={options.delay} is no whole number of milliseconds", "the history records milliseconds"
            )
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
            # Registered before it begins, so that healing ends it whatever happens.
            bad.traced.append(traced)
            await traced.begin()
            if trouble.times is not None:
                bad.ending.append(asyncio.create_task(_let_go(traced, trouble.times)))
        missed = await _await_hits(bad.traced, holds=delay_ms > _HELD_S * 1000)
        text = "; ".join(_hits_text(traced, holds=delay_ms > _HELD_S * 1000) for traced in bad.traced)
        if missed:
            return Proof(FaultOutcome.INDETERMINATE, f"no call was hit within {_HIT_S:g} s: {text}")
        return Proof(FaultOutcome.INSTALLED, text)

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        # Kept until everything is proven: healing may be tried again.
        bad = self._bad.get(fault_id, _Bad())
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        texts, wrong = [], []
        for task in bad.ending:
            task.cancel()
        await asyncio.gather(*bad.ending, return_exceptions=True)
        for traced in bad.traced:
            problem = await traced.end()
            wrong += [problem] if problem else []
            texts.append(_hits_text(traced))
        if resolved.own(_Trouble).kind == "failing":
            await asyncio.gather(*(_await_end(t.node) for t in bad.traced if t.calls().count))
        for node in nodes:
            if node.name in bad.limits:
                data_limit.set_limit(node.place.data, bad.limits[node.name])
                full = data_limit.refuses_writes(node.place.data)
                wrong += [f"{node.name}: its data directory still refuses writes"] if full else []
                texts.append(f"{node.name}: {bad.limits[node.name] >> 20} MiB again")
        # Which servers met the limit is not known: one that ends because of it may still be about to end.
        await asyncio.gather(*(_await_end(node) for node in nodes if node.name in bad.limits))
        started, down = await restart_the_dead(nodes, fault_id, cluster)
        text = "; ".join([*texts, *started]) or "nothing was done"
        if wrong or down:
            return Proof(FaultOutcome.INDETERMINATE, f"{'; '.join([*wrong, *down])} ({text})")
        self._bad.pop(fault_id, None)
        return Proof(FaultOutcome.HEALED, text)


async def _let_go(traced: TracedNode, times: int) -> None:
    """End the tracer once enough calls were hit. A call of another thread that it holds just then goes on."""
    while traced.calls().count < times:
        await asyncio.sleep(_LOOK_S)
    await traced.end()


async def _await_end(node: Node) -> None:
    """Wait for a server that may be about to end because of an error; one that lives on is left alone."""
    deadline = asyncio.get_running_loop().time() + _END_S
    while node.state is not NodeState.DEAD and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_LOOK_S)


async def restart_the_dead(nodes: list[Node], fault_id: int, cluster: Cluster) -> tuple[list[str], list[str]]:
    """Start ended servers, except on nodes where another fault acts; return what was done and what is wrong."""
    done, wrong = [], []
    for node in nodes:
        if node.state is not NodeState.DEAD:
            continue
        if node.name in cluster.disturbed(fault_id):
            done.append(f"{node.name} is down and left to another fault")
            continue
        await node.start()
        if (await node.evidence()).state is NodeState.RUNNING:
            done.append(f"{node.name} had ended and was restarted as process {node.pid}")
        else:
            wrong.append(f"{node.name} does not run after its restart")
    return done, wrong


def affected_text(calls: Calls) -> str:
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
        return Proof(FaultOutcome.INDETERMINATE, f"not full, a test write succeeded: {', '.join(taking)}")
    return Proof(FaultOutcome.INSTALLED, "; ".join(texts))


async def _await_hits(traced: list[TracedNode], *, holds: bool) -> list[TracedNode]:
    """Wait until a call of every server was hit; return the servers without one.

    `holds`: each call is delayed for longer than this waits, so a call that is being held counts as hit.
    """
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


def _hits_text(traced: TracedNode, *, holds: bool = False) -> str:
    calls = traced.calls()
    took = ""
    if holds and calls.unreturned and not calls.count:
        return f"{traced.node.name}: {calls.unreturned[0][0]} is being held back, for more than {_HELD_S:g} s so far"
    if calls.took_s:
        took = f", each {min(calls.took_s) * 1e3:.1f} ms or more, median {median(calls.took_s) * 1e3:.1f}"
    again = f"; the tracer was replaced {traced.replaced} times for new files" if traced.replaced else ""
    return f"{traced.node.name}: {affected_text(calls)} hit{took}{again}"
