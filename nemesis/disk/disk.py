"""Disks of chosen nodes that are slow, fail, or are full, while the server runs; the server itself is not changed.

strace delays or fails the server's own system calls (`harness/runtime/disks`). `calls=` chooses them by kind and
`files=` by a pattern of paths below the data directory ("*.wal"). `times=1` hits the first call only, like a disk that
stalls once: strace counts per thread, so the tracer is ended as soon as enough calls were hit. A full disk is made by
lowering the size limit of the data directory to what is used.

The proof counts the delayed or failed calls in the tracer's log, or tries to write to the full disk. A server that ends
because of the fault is started again by healing.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from statistics import median
from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Act,
    FaultKind,
    FaultSpec,
    NotUndone,
    Proof,
    Resolved,
    View,
    refuse_foreign,
)
from fencepost.harness.faults.restarts import until
from fencepost.harness.history import Effects, FaultOutcome
from fencepost.harness.runtime.disks import data_limit
from fencepost.harness.runtime.disks.availability import why_not
from fencepost.harness.runtime.disks.trace_log import TracedCalls
from fencepost.harness.runtime.disks.traced_node import EVERY_FILE, TracedNode
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Need, Placement

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


class DiskFault(FaultKind):
    name = "disk"
    about = "the disk below a running server is slow, fails single calls, or is full"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = DiskOptions(for_=seconds(6))
    holds = frozenset({"disk"})
    for_all = ("disk:leader:kind=slow", "disk:one:kind=failing", "disk:one:kind=full")

    def effects(self, spec: FaultSpec) -> Effects:
        full = spec.own(DiskOptions).kind == "full"
        # A server that cannot write ends itself.
        return Effects(ends=full, holds=not full)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        options = spec.own(DiskOptions)
        closed = placement.why_not(Need.FILES) if options.kind == "full" else None
        if closed is not None:
            return Refusal(closed.reason, f"{closed.remedy}, or kind=failing:error=ENOSPC, which fails single calls")
        if options.delay % _MS:
            return Refusal(
                f"delay={options.delay} is no whole number of milliseconds", "the history records milliseconds"
            )
        return refuse_foreign(spec, options.kind, _OPTIONS)

    def unavailable(self, placement: Placement) -> Refusal | None:
        return why_not(placement)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(DiskOptions)
        details: dict[str, str | int] = {"kind": options.kind}
        if options.kind != "full":
            details |= {"calls": options.calls, "files": options.files}
        if options.kind == "slow":
            details["delay_ms"] = options.delay // _MS
        if options.kind == "failing":
            details["error"] = options.error
        if options.times is not UNSET:
            details["times"] = options.times
        return Resolved(nodes=nodes, details=details)

    async def inject(self, act: Act) -> Proof:
        options = act.options(DiskOptions)
        #: Nodes whose server may be about to end because of an error.
        ending = act.keep(list[Node]())
        if options.kind == "full":
            return await _fill(act, ending)
        slow = options.kind == "slow"
        action = f"delay_enter={options.delay // _MS * 1000}" if slow else f"error={options.error}"
        if options.times is not UNSET:
            action += f":when=1..{options.times}"
        all_traced: list[TracedNode] = []
        for node in act.nodes:
            traced = traced_node(act, node, calls=options.calls, files=options.files, action=action)
            all_traced.append(traced)
            act.undo(partial(_released, traced, [] if slow else ending))
            await traced.begin()
            if options.times is not UNSET:
                act.undo(partial(_cancelled, asyncio.create_task(_let_go(traced, options.times))))
        holds = slow and options.delay > _HELD_S * 1e9
        missed = await _await_hits(all_traced, holds=holds)
        text = "; ".join(_hits_text(traced, holds=holds) for traced in all_traced)
        if missed:
            return Proof(FaultOutcome.INDETERMINATE, f"no call was hit within {_HIT_S:g} s: {text}")
        return Proof(FaultOutcome.INSTALLED, text)

    async def heal(self, act: Act) -> Proof:
        # One that lives on is left alone.
        ending: list[Node] = act.kept(list) or []
        await until(lambda: all(node.state is NodeState.DEAD for node in ending), _END_S, look_s=_LOOK_S)
        started, down = await restart_the_dead(act)
        return Proof(FaultOutcome.INDETERMINATE if down else FaultOutcome.HEALED, "; ".join([*down, *started]))


def traced_node(act: Act, node: Node, *, calls: str, files: str, action: str) -> TracedNode:
    logs = node.place.kept / f"strace-{act.fault_id}.log"
    return TracedNode(node, calls=calls, files=files, action=action, logs=logs)


async def released(traced: TracedNode) -> None:
    """Let the server go. Raises NotUndone."""
    if problem := await traced.end():
        raise NotUndone(problem)


async def _released(traced: TracedNode, ending: list[Node]) -> str:
    await released(traced)
    if traced.calls().count:
        ending.append(traced.node)
    return _hits_text(traced)


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _limited(node: Node, limit: int, ending: list[Node]) -> str:
    data_limit.set_limit(node.place.data, limit)
    if data_limit.refuses_writes(node.place.data):
        raise NotUndone(f"{node.name}: its data directory still refuses writes")
    # Whether its server met the limit is not known.
    ending.append(node)
    return f"{node.name}: {limit >> 20} MiB again"


async def _let_go(traced: TracedNode, times: int) -> None:
    """End the tracer once enough calls were hit. A call of another thread that it holds just then goes on."""
    while traced.calls().count < times:
        await asyncio.sleep(_LOOK_S)
    await traced.end()


async def restart_the_dead(act: Act) -> tuple[list[str], list[str]]:
    """Start ended servers, except on nodes where another fault acts; return what was done and what is wrong."""
    done, wrong = [], []
    for node in act.nodes:
        if node.state is not NodeState.DEAD:
            continue
        if node.name in act.disturbed():
            act.cluster.ended.add(node.name)
            done.append(f"{node.name} is down, and is started once no other fault acts on it")
            continue
        await node.start()
        if (await node.evidence()).state is NodeState.RUNNING:
            done.append(f"{node.name} had ended and was restarted as process {node.pid}")
        else:
            wrong.append(f"{node.name} does not run after its restart")
    return done, wrong


def affected_text(calls: TracedCalls) -> str:
    """ "37 calls (30 fdatasync, 7 fsync)"."""
    names = ", ".join(f"{count} {name}" for name, count in calls.affected.most_common())
    return f"{calls.count} calls ({names})" if names else "0 calls"


async def _fill(act: Act, ending: list[Node]) -> Proof:
    texts, taking = [], []
    for node in act.nodes:
        data = node.place.data
        if not data_limit.is_limited(data):
            return Proof(FaultOutcome.INDETERMINATE, f"{node.name}: its data directory has no limit of its own")
        used, limit = data_limit.byte_counts(data)
        act.undo(partial(_limited, node, limit, ending))
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
