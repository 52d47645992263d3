"""The part of the figures of slow and lossy links that is measured inside the lab."""

import socket
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

from fencepost.harness.runtime.network import Link, Shape

if TYPE_CHECKING:
    from fencepost.harness.runtime.lab.lab import Lab

_PORT = 10081
_MS = 1_000_000


async def commits(lab: "Lab", args: dict[str, Any]) -> dict[str, Any]:
    """Measure how long apply() of slow links of one node and its withdraw() take."""
    shapes = lab.network.shapes
    links = {link: Shape(delay_ns=10 * _MS) for link in (*_both("n1", "n2"), *_both("n1", "n3"))}
    begun = time.perf_counter_ns()
    await shapes.prepare()
    figures: dict[str, Any] = {"prepare_ms": (time.perf_counter_ns() - begun) / 1e6, "means": shapes.means}
    applied, healed = [], []
    for _ in range(args["commits"]):
        begun = time.perf_counter_ns()
        await shapes.apply(1, links)
        middle = time.perf_counter_ns()
        await shapes.withdraw(1)
        applied.append(middle - begun)
        healed.append(time.perf_counter_ns() - middle)
    for name, times in (("apply", applied), ("heal", healed)):
        times.sort()
        figures[f"{name}_ms"] = statistics.median(times) / 1e6
        figures[f"{name}_ms_p99"] = times[len(times) * 99 // 100] / 1e6
    return figures


async def round_trips(lab: "Lab", args: dict[str, Any]) -> dict[str, float]:
    """Measure round trips over TCP between two nodes: without a fault, through the queue, with 10 ms each way."""
    client, server = _connection(lab)
    figures: dict[str, float] = {}
    with client, server:
        for number, (name, shape) in enumerate(
            {"free": None, "queue": Shape(), "slow": Shape(delay_ns=10 * _MS)}.items()
        ):
            if shape is not None:
                await lab.network.shapes.apply(number, dict.fromkeys(_both("n1", "n2"), shape))
            times = sorted(_trip_ms(client, server) for _ in range(args["trips"]))
            figures[f"{name}_ms"] = statistics.median(times)
            figures[f"{name}_ms_least"], figures[f"{name}_ms_p90"] = times[0], times[len(times) * 9 // 10]
    return figures


def _trip_ms(client: socket.socket, server: socket.socket) -> float:
    begun = time.perf_counter_ns()
    client.sendall(b"?")
    server.recv(1)
    server.sendall(b"!")
    client.recv(1)
    return (time.perf_counter_ns() - begun) / 1e6


async def kept(lab: "Lab", args: dict[str, Any]) -> dict[str, float]:
    """Measure how much a narrow link carries, and how much a lossy link loses."""
    shapes, out = lab.network.shapes, Link("n1", "n2")
    client, server = _connection(lab)
    with client, server:
        free = _rate(client, server, 64 << 20)
        await shapes.apply(1, dict.fromkeys(_both("n1", "n2"), Shape()))
        queued = _rate(client, server, 8 << 20)
        await shapes.apply(1, {out: Shape(rate_bytes_s=64_000)})
        narrow = _rate(client, server, 200_000)
        await shapes.withdraw(1)
    lossy = {out: Shape(loss=0.1, seed=1)}
    await shapes.apply(2, lossy)
    passage = (await shapes.measure(lossy, 2000))[out]
    return {
        "free_mb_s": free / 1e6,
        "queue_mb_s": queued / 1e6,
        "rate_kb_s": narrow / 1e3,
        "lost": 1 - passage.arrived / passage.sent,
        "sent": passage.sent,
    }


def _rate(client: socket.socket, server: socket.socket, size: int) -> float:
    """Return the bytes per second of a stream, as they are read."""
    sending = threading.Thread(target=client.sendall, args=(bytes(size),))
    begun = time.perf_counter()
    sending.start()
    left = size
    while left:
        left -= len(server.recv(min(left, 1 << 20)))
    sending.join()
    return size / (time.perf_counter() - begun)


def _connection(lab: "Lab") -> tuple[socket.socket, socket.socket]:
    """Open a connection from n1 to n2 and return both ends."""
    address = (lab.layout["n2"].address, _PORT)
    with lab.nodes["n2"].thread.call(socket.create_server, address) as listener:
        client = lab.nodes["n1"].thread.call(socket.create_connection, address, 5)
        server, _ = listener.accept()
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.settimeout(30)
    return client, server


def _both(a: str, b: str) -> tuple[Link, Link]:
    return Link(a, b), Link(b, a)
