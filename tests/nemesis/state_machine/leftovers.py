"""Everything of a lab that a fault may change, as plain values: two of these are equal when nothing was left behind.

Looked at is what the kernel tells, not what the harness remembers, wherever the kernel tells it. What grows of itself
(logs, processor time, process numbers) is left out.
"""

import asyncio
import contextlib
import os
import re
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Final

from fencepost.harness.runtime.clocks.memory import ClockError
from fencepost.harness.runtime.clocks.process import ClockedProcess
from fencepost.harness.runtime.disks.strace import tracers_of
from fencepost.harness.runtime.lab.node import LabNode
from fencepost.harness.runtime.linux import nftables, processes
from fencepost.harness.runtime.network import CLIENT
from fencepost.harness.runtime.shaping import queue_rules
from tests.nemesis.state_machine.stage import Stage, mounts

_NUMBER: Final = re.compile(r"\d+")
#: Of asyncio's pool, which grows with its use.
_POOL: Final = "asyncio_"
_QUEUE: Final = "/proc/thread-self/net/netfilter/nfnetlink_queue"
#: A moment of its own: it opens a connection anew after every error.
_WRITERS_OWN: Final = ("Stage._write", "_SelectorSocketTransport")


def state_of(stage: Stage) -> dict[str, Any]:
    """By part of the machine; nodes stand under their names."""
    found: dict[str, Any] = {name: node_state(stage, node) for name, node in stage.lab.nodes.items()}
    return {**found, "links": links(stage), "machine": _machine(stage), "harness": _harness(stage)}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """In words, one for each value that differs."""
    return [
        f"{part}: {what}: {_change(before[part][what], after[part][what])}"
        for part in before
        for what in before[part]
        if before[part][what] != after[part][what]
    ]


def _change(before: Any, after: Any) -> str:
    if not (isinstance(before, list) and isinstance(after, list)):
        return f"was {before!r}, is {after!r}"
    gone, come = [x for x in before if x not in after], [x for x in after if x not in before]
    return f"{gone} became {come}" if gone or come else f"was {before}, is {after}"


def node_state(stage: Stage, node: LabNode) -> dict[str, Any]:
    """One node: its process, its files, its namespace."""
    members = processes.group_members(node.pid) if node.pid is not None else []
    data = os.stat(node.place.data)
    files = os.statvfs(node.place.data)
    return {
        "state": str(node.state),
        "processes": len(members),
        "stopped threads": sum(state in "Tt" for state in node.thread_states().values()),
        "tracers": sum(tracer != 0 for pid in members for tracer in tracers_of(pid)),
        "clock functions": sorted({_clock_functions(pid) for pid in members}),
        "namespace is its own": {_namespace(pid) for pid in members}
        <= {os.fstat(node.thread.namespace_fd).st_ino, None},
        "wrapped by": len(node.wrap_argv),
        "hooks of its start": len(node.on_start),
        "data directory": (oct(data.st_mode), data.st_uid, data.st_gid, files.f_blocks * files.f_frsize),
        "files": _files(node.place.data, named=stage.is_plain),
        "devices and routes": node.thread.call(_network),
    }


def links(stage: Stage) -> dict[str, Any]:
    """What stands in the way of packets, as the kernel tells it, and as the harness thinks."""
    network, shapes = stage.lab.network, stage.lab.network.shapes
    queued: dict[bytes, nftables.PacketVerdict] = {}
    with nftables.Nftables() as kernel, contextlib.suppress(FileNotFoundError):
        queued = kernel.read_map(nftables.Batch(queue_rules.TABLE, nftables.IPV4), queue_rules.MAP)
    return {
        "shut, by the kernel": sorted(map(str, network.read_back())),
        "shut": sorted(map(str, network.blocked)),
        "handed over by the kernel": sorted(map(str, shapes._stations.links(CLIENT, queued))),
        "shaped": sorted(map(str, shapes.in_force)),
        "waiting in the kernel's queue": _waiting(),
    }


def _machine(stage: Stage) -> dict[str, Any]:
    servers = {pid for node in stage.lab.nodes.values() for pid in processes.group_members(node.pid or -1)}
    return {
        "processes besides servers": sorted(_others(servers).items()),
        "mounts": _changed_mounts(stage),
        "devices and routes": _network(),
    }


def _changed_mounts(stage: Stage) -> list[str]:
    """Those that came since the lab was made, or are others.

    One of before may go: the kernel takes it away when somebody outside removes its directory, such as a container's.
    """
    return sorted(what for number, what in mounts().items() if stage.mounts_before.get(number) != what)


def _harness(stage: Stage) -> dict[str, Any]:
    """Of this process: what it holds open, and what still runs in it."""
    tasks = Counter(_name(task) for task in asyncio.all_tasks() - {asyncio.current_task()})
    return {
        "descriptors": sorted(_descriptors().items()),
        "threads": sorted(t.name for t in threading.enumerate() if not t.name.startswith(_POOL)),
        "tasks": sorted((name, count) for name, count in tasks.items() if not name.startswith(_WRITERS_OWN)),
        "clients held": [gate.held_back if gate.is_shut else None for gate in stage.freezer.gates],
    }


def _name(task: "asyncio.Task[Any]") -> str:
    return str(getattr(task.get_coro(), "__qualname__", task.get_name()))


def _descriptors() -> Counter[str]:
    """By what they lead to, numbers left out; those of clients' connections come and go."""
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            name = _NUMBER.sub("N", os.readlink(f"/proc/self/fd/{number}"))
            counts = not (name.startswith("socket:") and _is_stream(int(number)))
        except OSError:
            # Closed meanwhile, by a thread.
            continue
        if counts:
            found[name] += 1
    return found


def _is_stream(number: int) -> bool:
    """Whether it is a TCP socket: of a client, an observer, or somebody who asks for health."""
    with socket.socket(fileno=os.dup(number)) as opened:
        return opened.family in (socket.AF_INET, socket.AF_INET6) and opened.type == socket.SOCK_STREAM


def _others(servers: set[int]) -> Counter[str]:
    """Living processes of this pid namespace, by the program they run."""
    found: Counter[str] = Counter()
    namespace = os.stat("/proc/self/ns/pid").st_ino
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in servers:
            continue
        try:
            if os.stat(f"/proc/{name}/ns/pid").st_ino != namespace:
                continue
            state = processes._stat(f"/proc/{name}/stat")
            words = Path(f"/proc/{name}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if state is not None and state[0] != "X":
            found[_NUMBER.sub("N", " ".join(words[:4])) or "ended, and waited for by nobody"] += 1
    return found


def _clock_functions(pid: int) -> str:
    try:
        process = ClockedProcess(pid)
        try:
            return "the kernel's" if process.is_original() else "ours"
        finally:
            process.close()
    except (ClockError, OSError) as error:
        return f"cannot be read: {error}"


def _namespace(pid: int) -> int | None:
    """None where it has ended since."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except (FileNotFoundError, ProcessLookupError):
        return None


def _files(data: Path, *, named: bool) -> list[tuple[str, str, int, int]]:
    """Name, mode, owner and group of every file; of real servers' files, which come and go, their owners only."""
    found = set()
    for folder, folders, names in os.walk(data):
        for name in (*folders, *names):
            try:
                status = os.lstat(os.path.join(folder, name))
            except FileNotFoundError:
                continue
            known = named or name.startswith(".fencepost")
            found.add((name if known else "", oct(status.st_mode) if known else "", status.st_uid, status.st_gid))
    return sorted(found)


def _network() -> tuple[list[str], str]:
    """Devices and routes of the calling thread's namespace."""
    return [name for _, name in socket.if_nameindex()], Path("/proc/thread-self/net/route").read_text()


def _waiting() -> int:
    """Packets in the kernel's queue of this namespace; told to root only, and where there are queues."""
    try:
        lines = Path(_QUEUE).read_text().splitlines()
    except (FileNotFoundError, PermissionError):
        return 0
    return sum(int(line.split()[2]) for line in lines)
