"""What the tests of slow and lossy links do inside the lab, below the faults: nothing but the standard library."""

# Blocking calls and short waits are harmless here: nothing else runs on these loops.
# ruff: noqa: ASYNC240

import asyncio
import os
import random
import signal
import socket
import time
from pathlib import Path
from typing import Any

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Link, PacketShape, Reach
from fencepost.harness.runtime.shaping.stations import RouterStations
from tests.runtime.links.exact_probe import HEARD_S, probe_exactly

PORT = 5001
_MS = 1_000_000
_REACH = {Effect.DROP: Reach.DROPPED, Effect.RESET: Reach.RESET}
#: Of what must happen on a socket of a scenario; a busy machine may take its time.
_DEADLINE_S = 40.0


async def one_way(lab: Lab, args: dict[str, Any]) -> Any:
    """Two directions of a link with different delays: what datagrams and a round trip of our own take, in ms."""
    there, back = Link("n1", "n2"), Link("n2", "n1")
    shapes = lab.network.shapes
    before = await shapes.measure({there: PacketShape(), back: PacketShape()})
    await shapes.apply(1, {there: PacketShape(delay_ns=30 * _MS), back: PacketShape(delay_ns=10 * _MS)})
    during = await shapes.measure({there: PacketShape(), back: PacketShape()})
    trip_ms = round_trip_ms(lab, "n1", "n2")
    await shapes.withdraw(1)
    after = await shapes.measure({there: PacketShape(), back: PacketShape()})
    return [[p[there].least_ms, p[back].least_ms] for p in (before, during, after)] + [trip_ms]


def round_trip_ms(lab: Lab, source: str, target: str) -> float:
    """The quickest of some round trips between two sockets of this process."""
    a, b = (lab.nodes[name].thread.call(_datagrams, lab.layout[name].address) for name in (source, target))
    with a, b:
        times = []
        for _ in range(10):
            begun = time.monotonic_ns()
            a.sendto(b"?", b.getsockname())
            data, asker = b.recvfrom(16)
            b.sendto(data, asker)
            a.recv(16)
            times.append((time.monotonic_ns() - begun) / 1e6)
    return min(times)


def _datagrams(address: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind((address, PORT))
    opened.settimeout(_DEADLINE_S)
    return opened


async def streams_survive(lab: Lab, args: dict[str, Any]) -> Any:
    """A TCP stream over a link that loses, doubles and disorders packets arrives whole, as does one when it ends."""
    links = {
        link: PacketShape(loss=0.02, duplicate=0.2, reorder=0.2, reorder_by_ns=2 * _MS, seed=n)
        for n, link in enumerate((Link("n1", "n2"), Link("n2", "n1")))
    }
    listener = lab.nodes["n1"].thread.call(socket.create_server, (lab.layout["n1"].address, PORT))
    client = lab.nodes["n2"].thread.call(socket.create_connection, listener.getsockname(), _DEADLINE_S)
    server, _ = listener.accept()
    sent, came = random.Random(1).randbytes(200_000), bytearray()
    server.settimeout(_DEADLINE_S)
    for number in range(4):
        if number == 1:
            await lab.network.shapes.apply(1, links)
        if number == 3:
            await lab.network.shapes.withdraw(1)
        client.sendall(sent[number * 50_000 : (number + 1) * 50_000])
        while len(came) < (number + 1) * 50_000:
            came += server.recv(1 << 16)
    for opened in (client, server, listener):
        opened.close()
    return bytes(came) == sent


async def any_order(lab: Lab, args: dict[str, Any]) -> Any:
    """Cuts and shapes of several faults come and go: the kernel holds what they come to, and at last nothing."""
    draw = random.Random(args["seed"])
    every = list(all_links(lab.nodes))
    network, shapes = lab.network, lab.network.shapes
    wrong: list[int | str] = []
    for step in range(args["steps"]):
        number = draw.randrange(4)
        some = draw.sample(every, draw.randrange(1, 6))
        match draw.randrange(5):
            case 0 | 1:
                await shapes.apply(number, {link: PacketShape(delay_ns=draw.randrange(5) * _MS) for link in some})
            case 2:
                await network.apply(number, dict.fromkeys(some, draw.choice(list(Effect))))
            case 3:
                await shapes.withdraw(number)
            case _:
                await network.withdraw(number)
        if await shapes.read_back() != shapes.in_force.keys() or network.read_back() != network.blocked:
            wrong.append(step)
    found = await probe_exactly(
        network, {link: _REACH[network.blocked[link]] if link in network.blocked else Reach.OPEN for link in every}
    )
    wrong += [str(link) for link in every if (link in network.blocked) == (found[link] is Reach.OPEN)]
    await network.heal_all()
    healed = await network.probe(every, HEARD_S)
    return [wrong, sorted(map(str, await shapes.read_back())), sorted({*healed.values()}), len(shapes.in_force)]


async def shaper_dies(lab: Lab, args: dict[str, Any]) -> Any:
    """Without the process that holds packets they pass, and the next change is refused with the reason."""
    shapes, link = lab.network.shapes, Link("n1", "n2")
    await shapes.apply(1, {link: PacketShape(delay_ns=200 * _MS)})
    shaper = stations(lab).shaping
    assert shaper is not None
    os.kill(shaper.pid, signal.SIGKILL)
    shaper._process.wait()
    after = (await shapes.measure({link: PacketShape()}, 20))[link]
    said = ""
    try:
        await shapes.withdraw(1)
    except HarnessError as error:
        said = error.message
    await lab.network.heal_all()
    found = await lab.network.probe([link], HEARD_S)
    return [after.arrived, (after.least_ms or 0) < 200, said, found[link]]


async def shaper_put_off(lab: Lab, args: dict[str, Any]) -> Any:
    """The process that holds packets gets no processor for longer than is waited for late ones: datagrams lost."""
    shapes, link = lab.network.shapes, Link("n1", "n2")
    shape = PacketShape(delay_ns=20 * _MS)
    await shapes.apply(1, {link: shape})
    shaper = stations(lab).shaping
    assert shaper is not None
    measuring = asyncio.create_task(shapes.measure({link: shape}))
    await asyncio.sleep(0.05)
    os.kill(shaper.pid, signal.SIGSTOP)
    await asyncio.sleep(1.0)
    os.kill(shaper.pid, signal.SIGCONT)
    passage = (await measuring)[link]
    return passage.sent - passage.arrived


async def ends_with_the_lab(lab: Lab, args: dict[str, Any]) -> Any:
    """The processes that hold and measure end when the lab is closed."""
    shapes = lab.network.shapes
    await shapes.prepare()
    shaper = stations(lab).shaping
    assert shaper is not None
    meter = stations(lab).measuring
    assert meter is not None
    pids = [shaper.pid, meter.pid]
    before = [Path(f"/proc/{pid}").exists() for pid in pids]
    await lab.close()
    return [before, [Path(f"/proc/{pid}").exists() for pid in pids]]


async def resets(lab: Lab, args: dict[str, Any]) -> Any:
    """Idle connections between the ends of some links end, others live."""
    shapes = lab.network.shapes
    named = [Link("n1", "n2"), Link(CLIENT, "n1")]
    witness = await shapes.open_witness([*named, Link("n2", "n3"), Link(CLIENT, "n3")])
    count = await shapes.break_connections(named)
    ended = await witness.ended(0.5)
    await witness.close()
    return [count, sorted("-".join(sorted(pair)) for pair, gone in ended.items() if gone), len(ended)]


def stations(lab: Lab) -> RouterStations:
    made = lab.network.shapes._stations
    assert isinstance(made, RouterStations)
    return made
