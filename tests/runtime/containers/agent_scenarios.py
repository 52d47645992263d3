"""What the tests of the side-car's agent do inside a lab: an agent in each node's namespace, no container anywhere."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from fencepost.harness.base.errors import FencepostError, MachineError
from fencepost.harness.runtime.containers.rules import sidecar_agent, sidecar_network
from fencepost.harness.runtime.containers.rules.agent_connection import AgentConnection
from fencepost.harness.runtime.containers.rules.sidecar_network import AgentEnds, SidecarNetwork, open_agents
from fencepost.harness.runtime.lab.lab import HARNESS_ADDRESS, Lab
from fencepost.harness.runtime.links.packet_rules import Addresses
from fencepost.harness.runtime.links.probe import Prober, SocketEnd
from fencepost.harness.runtime.links.probe_socket import ProbeSocket
from fencepost.harness.runtime.links.rules_in_force import all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Link, PacketShape, Reach
from tests.runtime.links.exact_probe import FOREVER_S, HEARD_S, probe_exactly

#: The lab's own probe sockets have the usual one.
PORT = 10078
SHAPES: list[dict[Link, Effect]] = [
    {link: effect for other in ("n2", "n3") for link in (Link("n1", other), Link(other, "n1"))}
    for effect in (Effect.DROP, Effect.RESET)
] + [
    {Link("n1", "n2"): Effect.RESET, Link("n2", "n1"): Effect.DROP},
    {Link(CLIENT, "n1"): Effect.DROP, Link("n3", CLIENT): Effect.RESET},
    {Link(CLIENT, "n1"): Effect.RESET, Link("n1", CLIENT): Effect.DROP},
    {Link(a, b): Effect.DROP for a, b in permutations(["n1", "n2", "n3", CLIENT], 2)},
]


@dataclass
class Agents:
    network: SidecarNetwork
    connections: dict[str, AgentConnection]
    processes: dict[str, "subprocess.Popen[bytes]"]


@contextlib.asynccontextmanager
async def agents(lab: Lab, **options: float) -> AsyncIterator[Agents]:
    """An agent in every node's namespace, its stdin and stdout a socket, as an engine's attachment is."""
    places = {name: place.address for name, place in lab.layout.items()}
    addresses = Addresses(places, HARNESS_ADDRESS)
    prober = Prober(places | {CLIENT: HARNESS_ADDRESS})
    ends = AgentEnds(prober, places | {CLIENT: HARNESS_ADDRESS}, addresses)
    made = Agents(SidecarNetwork(addresses, {}, prober, {}), {}, {})
    try:
        for name in lab.nodes:
            ours, theirs = socket.socketpair()
            made.processes[name] = lab.nodes[name].thread.call(_start, theirs)
            theirs.close()
            ours.setblocking(False)
            connection = AgentConnection(name, ends.tell, framed=False)
            await asyncio.get_running_loop().create_unix_connection(lambda made=connection: made, sock=ours)  # type: ignore[misc]
            made.connections[name] = connection
            ends.add(connection, PORT)
        await open_agents(made.connections, places, port=PORT)
        made.network = SidecarNetwork(
            addresses, made.connections, prober, places | {CLIENT: HARNESS_ADDRESS}, **options
        )
        client = ProbeSocket(HARNESS_ADDRESS, PORT)
        prober.add_end(CLIENT, SocketEnd(client, places, prober.tell, PORT))
        yield made
    finally:
        prober.close()
        for connection in made.connections.values():
            connection.close()
        for process in made.processes.values():
            await asyncio.to_thread(process.wait, 40)


def _start(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    root = Path(__file__).resolve().parents[3]
    argv = [sys.executable, "-S", "-m", "fencepost.harness.runtime.containers.rules.sidecar_agent"]
    return subprocess.Popen(argv, cwd=root, stdin=theirs.fileno(), stdout=theirs.fileno())


async def shapes(lab: Lab, args: dict[str, Any]) -> Any:
    """Enforce each shape by the agents; probe it, read it back, withdraw it. Gives the differences found."""
    wrong = []
    async with agents(lab) as it:
        for number, links in enumerate(SHAPES):
            wanted = dict.fromkeys(all_links(lab.nodes), Reach.OPEN)
            await it.network.apply(number, links)
            matrix = wanted | {link: _reach(effect) for link, effect in links.items()}
            found = await probe_exactly(it.network, matrix, FOREVER_S)
            if found != matrix or await it.network.read_back() != links:
                wrong.append([number, {str(link): found[link] for link in found if found[link] != matrix[link]}])
            await it.network.withdraw(number)
            if await it.network.probe(wanted, HEARD_S) != wanted or await it.network.read_back():
                wrong.append([number, "withdrawn"])
        # The second datagram meets the refusal of the first, and nothing comes that would wake anybody up for it.
        met = {Link("n1", "n2"): Reach.RESET, Link("n1", "n3"): Reach.OPEN}
        await it.network.apply(1, {Link("n1", "n2"): Effect.RESET})
        if await probe_exactly(it.network, met, FOREVER_S) != met:
            wrong.append(["met while sending"])
    return {"wrong": wrong, "codes": [process.returncode for process in it.processes.values()]}


def _reach(effect: Effect) -> Reach:
    return Reach.RESET if effect is Effect.RESET else Reach.DROPPED


async def slow_links(lab: Lab, args: dict[str, Any]) -> Any:
    """Links shaped by the side-cars, felt by the datagrams of all ends; a helper that dies; idle connections reset."""
    delay = PacketShape(delay_ns=20_000_000)
    links = {
        Link("n1", "n2"): delay,
        Link(CLIENT, "n1"): PacketShape(delay_ns=20_000_000, duplicate=0.3, seed=1),
        Link("n1", CLIENT): PacketShape(delay_ns=20_000_000, loss=0.3, seed=2),
    }
    async with agents(lab) as it:
        network = it.network.shapes
        seen: list[Any] = []
        await network.apply(1, links)
        seen.append(await network.read_back() == links.keys())
        every = {link: links.get(link, PacketShape()) for link in all_links(lab.nodes)}
        during = await network.measure(every)
        seen.append(sorted(str(link) for link, passage in during.items() if (passage.least_ms or 0) >= 20))
        seen.append([str(link) for link, passage in during.items() if passage.doubled])
        seen.append([str(link) for link, passage in during.items() if passage.arrived < passage.sent])
        _kill_shaper(it.processes["n2"].pid)
        seen.append((await network.measure({Link("n1", "n2"): delay}))[Link("n1", "n2")].arrived > 0)
        seen.append(await _message(network.apply(2, {})))
        await network.apply(2, {})
        again = await network.measure({Link("n1", "n2"): delay})
        seen.append((again[Link("n1", "n2")].least_ms or 0) >= 20)
        witness = await network.open_witness([Link("n1", "n2"), Link(CLIENT, "n3")])
        seen.append(await network.break_connections([Link("n1", "n2")]))
        ended = await witness.ended(0.5)
        seen.append(sorted("-".join(sorted(pair)) for pair, gone in ended.items() if gone))
        await witness.close()
        await it.network.heal_all()
        seen.append(sorted(map(str, await network.read_back())))
        network.close()
    return seen


def _kill_shaper(agent: int) -> None:
    for pid in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
        if b"shaping.shaper" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)


async def many_probes(lab: Lab, args: dict[str, Any]) -> Any:
    """Probe after probe, past every number that could be mistaken for something else: all open, each time."""
    async with agents(lab) as it:
        links = list(all_links(lab.nodes))
        found = [{*(await it.network.probe(links, HEARD_S)).values()} for _ in range(300)]
        return sum(reaches != {Reach.OPEN} for reaches in found)


async def misfortunes(lab: Lab, args: dict[str, Any]) -> Any:
    """Requests that are refused, an agent that is stopped and answers late, one that dies."""
    seen: dict[str, Any] = {}
    async with agents(lab) as it:
        one = it.connections["n1"]
        seen["nothing known"] = await _message(one.ask("dance"))
        seen["set wrong"] = await _message(one.ask("set", state={"00": "drop"}))
        await it.network.apply(1, {Link("n2", "n1"): Effect.DROP})
        # Rules that vanish behind our back: refused, and told.
        lab.nodes["n1"].thread.call(_remove_table)
        seen["no table"] = await _message(it.network.apply(2, {Link("n3", "n1"): Effect.DROP}))
        seen["still"] = [str(link) for link in it.network.blocked]
        it.processes["n3"].kill()
        it.processes["n3"].wait(10)
        await asyncio.sleep(0.05)
        seen["died"] = await _message(
            it.network.apply(3, {Link("n1", "n2"): Effect.DROP, Link("n1", "n3"): Effect.DROP})
        )
        seen["put back"] = [str(link) for link in await _read(it, "n2")]
        seen["healed"] = await _message(it.network.heal_all())
    return seen


async def late(lab: Lab, args: dict[str, Any]) -> Any:
    """An agent that does not answer in time: named, the others are as before, and all is healed when it is back."""
    async with agents(lab, answer_timeout_s=args["timeout_s"]) as it:
        process = it.processes["n2"]
        process.send_signal(signal.SIGSTOP)
        said = await _message(it.network.apply(1, {Link("n1", "n2"): Effect.DROP, Link("n1", "n3"): Effect.DROP}))
        process.send_signal(signal.SIGCONT)
        # It has its say, however long it has to wait for the processor.
        it.network._answer_timeout_s = 40.0
        await it.network.heal_all()
        return {"said": said, "left": len(await it.network.read_back()), "blocked": len(it.network.blocked)}


async def other_version(lab: Lab, args: dict[str, Any]) -> Any:
    vars(sidecar_network)["VERSION"] = sidecar_agent.VERSION + 1
    try:
        async with agents(lab):
            return "accepted"
    except MachineError as error:
        return error.message


async def _read(it: Agents, name: str) -> dict[Link, Effect]:
    return it.network._addresses.links(await it.network._read(name), name)


async def _message(asked: Any) -> str:
    try:
        await asked
    except FencepostError as error:
        return error.message
    return "done"


def _remove_table() -> None:
    from fencepost.harness.runtime.links.packet_rules import TABLE
    from fencepost.harness.runtime.linux import nftables

    batch = nftables.Batch(TABLE)
    batch.delete_table()
    with nftables.Nftables() as kernel:
        kernel.commit(batch)
