"""The part of the lab's figures that is measured inside it: commits, and the spread of a cut over the links."""

import socket
import statistics
import struct
import threading
import time
from itertools import pairwise, permutations
from typing import TYPE_CHECKING, Any, TypeAlias

from fencepost.harness.runtime.network import Effect, Link

if TYPE_CHECKING:
    from fencepost.harness.runtime.lab.lab import Lab

#: A link's number, the socket of its source, where to send.
Route: TypeAlias = tuple[int, socket.socket, tuple[str, int]]
_PORT = 10078
_NUMBERED = struct.Struct("=HI")  # link, number
#: Datagrams on each link before the cut is ordered, and again after it is done.
_MARGIN = 50


async def cuts(lab: "Lab", args: dict[str, Any]) -> list[dict[str, float]]:
    """Cut all links between nodes at once, again and again, while numbered datagrams run over each of them."""
    links = [Link(a, b) for a, b in permutations(lab.nodes, 2)]
    sockets = {name: node.thread.call(_socket, node.place.address) for name, node in lab.nodes.items()}
    routes = [(number, sockets[a], (lab.layout[b].address, _PORT)) for number, (a, b) in enumerate(links)]
    cuts = [await _cut(lab, links, routes, list(sockets.values())) for _ in range(args["cuts"])]
    for opened in sockets.values():
        opened.close()
    return cuts


async def _cut(lab: "Lab", links: list[Link], routes: list[Route], sockets: list[socket.socket]) -> dict[str, float]:
    """Commit one cut while another thread sends and receives one datagram on each link in each round."""
    sent: list[list[int]] = [[] for _ in links]
    arrived = [-1] * len(links)
    stop = threading.Event()
    traffic = threading.Thread(target=_run_traffic, args=(routes, sockets, sent, arrived, stop))
    traffic.start()
    _wait_for_rounds(sent[-1], _MARGIN)
    await lab.network.apply(1, dict.fromkeys(links, Effect.DROP))
    _wait_for_rounds(sent[-1], len(sent[-1]) + _MARGIN)
    stop.set()
    traffic.join()
    await lab.network.withdraw(1)
    last_through = min(times[last] for last, times in zip(arrived, sent, strict=True))
    first_lost = max(times[last + 1] for last, times in zip(arrived, sent, strict=True))
    rounds = statistics.median(b - a for a, b in pairwise(sent[0]))
    spread_ms = (first_lost - last_through) / 1e6
    return {"spread_ms": spread_ms, "round_ms": rounds / 1e6, "numbers": max(arrived) - min(arrived)}


def _wait_for_rounds(sent: list[int], count: int) -> None:
    deadline = time.monotonic() + 10.0
    while len(sent) < count:
        assert time.monotonic() < deadline, "datagrams are sent"
        time.sleep(0.001)


def _socket(address: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    opened.bind((address, _PORT))
    return opened


def _run_traffic(
    routes: list[Route], sockets: list[socket.socket], sent: list[list[int]], arrived: list[int], stop: threading.Event
) -> None:
    number = 0
    while not stop.is_set():
        for link, opened, target in routes:
            now = time.monotonic_ns()
            opened.sendto(_NUMBERED.pack(link, number), target)
            sent[link].append(now)
        number += 1
        _receive(sockets, arrived)


def _receive(sockets: list[socket.socket], last: list[int]) -> None:
    """Take everything that has arrived; `last` is the number of each link's last datagram."""
    for opened in sockets:
        while True:
            try:
                link, number = _NUMBERED.unpack(opened.recv(64))
            except BlockingIOError:
                break
            assert number == last[link] + 1, "nothing lost or reordered before the cut"
            last[link] = number


async def commits(lab: "Lab", args: dict[str, Any]) -> dict[str, float]:
    """Measure how long apply() of a whole-cluster split and its withdraw() take."""
    split = {Link(a, b): Effect.DROP for a, b in permutations(lab.nodes, 2)}
    applied, healed = [], []
    for _ in range(args["commits"]):
        begun = time.perf_counter_ns()
        await lab.network.apply(1, split)
        middle = time.perf_counter_ns()
        await lab.network.withdraw(1)
        applied.append(middle - begun)
        healed.append(time.perf_counter_ns() - middle)
    summary = {}
    for name, times in (("split", applied), ("heal", healed)):
        times.sort()
        summary[f"{name}_ms"] = statistics.median(times) / 1e6
        summary[f"{name}_ms_p99"] = times[len(times) * 99 // 100] / 1e6
    return summary
