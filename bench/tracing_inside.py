"""What strace costs etcd, measured inside the lab: the etcd figures' own load, on servers that are traced or not."""

import shlex
import subprocess
from functools import partial
from typing import Any

from bench import etcd_inside
from fencepost.harness.runtime.disks.strace import launch
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.node import Node

_CALLS = "trace=fsync,fdatasync"


async def load(lab: Lab, args: dict[str, Any]) -> list[dict[str, float]]:
    """`how` is "untraced", "attached" (as faults do it) or "seccomp" (from its first instruction, with a filter)."""
    tracers: list[subprocess.Popen[bytes]] = []
    for node in lab.nodes.values():
        if args["how"] == "attached":
            node.on_start.append(partial(_attach, tracers))
        elif args["how"] == "seccomp":
            log = str(node.place.kept / "strace.log")
            node.wrap_argv.append(partial(_wrap, log))
    loads = await etcd_inside.load(lab, args)
    assert all(tracer.poll() is None for tracer in tracers)
    return loads


def _wrap(log: str, argv: tuple[str, ...]) -> tuple[str, ...]:
    return (*shlex.split(f"strace -DDD -f --seccomp-bpf -qq -y -s 0 -e {_CALLS} -o"), log, *argv)


def _attach(tracers: list["subprocess.Popen[bytes]"], node: Node) -> None:
    assert node.pid is not None
    log = node.place.kept / "strace.log"
    tracers.append(launch(node.pid, ["-e", _CALLS, "-o", str(log)], subprocess.DEVNULL))
