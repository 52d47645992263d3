"""What the tests of the lab do inside it. Each function runs in a child that has entered the lab."""

# Blocking file calls and short polls are harmless here: nothing else runs on these loops.
# ruff: noqa: ASYNC240

import asyncio
import contextlib
import errno
import json
import os
import random
import signal
import socket
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.lab.node import LabNode
from fencepost.harness.runtime.links import packet_rules as link_rules
from fencepost.harness.runtime.links import probe
from fencepost.harness.runtime.links.rules_in_force import Contributions, all_links
from fencepost.harness.runtime.linux import nftables
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import NodeSpec, NodeState, Runtime
from tests.lab_scenario import start_scenario
from tests.runtime.links.exact_probe import FOREVER_S, HEARD_S, probe_exactly

PORT = 5000
SERVER = str(Path(__file__).with_name("server.py"))
#: Of what must happen; nothing takes this long, but on a busy machine any process may have to wait for its turn.
DEADLINE_S = 40.0
#: Of what must not happen: so long is waited for it.
_SILENCE_S = 0.3


def specs(lab: Lab, **changes: Any) -> list[NodeSpec]:
    argv = (sys.executable, "-S", "-E", SERVER, str(PORT))
    fields: dict[str, Any] = {"argv": argv, "listeners": {"main": PORT}, "data_limit_bytes": 1 << 20, **changes}
    return [NodeSpec(name=name, **fields) for name in lab.nodes]


async def start_all(lab: Lab) -> None:
    await lab.realise(specs(lab))
    for node in lab.nodes.values():
        await node.start()
    for node in lab.nodes.values():
        await until_serving(lab, node)


async def until_serving(lab: Lab, node: LabNode) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await connect(lab, CLIENT, node.name, 1.0) != "open":
            await asyncio.sleep(0.01)


def tcp_socket(lab: Lab, source: str) -> socket.socket:
    """A TCP socket at that end of the links."""
    made = socket.socket() if source == CLIENT else lab.nodes[source].thread.call(socket.socket)
    made.setblocking(False)
    return made


async def connect(lab: Lab, source: str, target: str, timeout_s: float = DEADLINE_S) -> str:
    """What becomes of a connection; `timeout_s` is waited in full only where nothing becomes of it."""
    with tcp_socket(lab, source) as client:
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().sock_connect(client, (lab.layout[target].address, PORT))
        except TimeoutError:
            return "dropped"
        except OSError as error:
            return errno.errorcode[error.errno or 0]
    return "open"


async def ask(lab: Lab, client: socket.socket, text: str, timeout_s: float = DEADLINE_S) -> str:
    """Send a line, give back the answer, or the name of the error."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            await loop.sock_sendall(client, text.encode() + b"\n")
            answer = await loop.sock_recv(client, 100)
        return answer.decode().strip() or "closed"
    except TimeoutError:
        return "nothing"
    except OSError as error:
        return errno.errorcode[error.errno or 0]


async def probe_all(lab: Lab, args: dict[str, Any]) -> dict[str, Reach]:
    runtime: Runtime = lab  # the type checker compares the two here
    found = await runtime.network.probe(all_links(runtime.nodes), HEARD_S)
    return {str(link): reach for link, reach in found.items()}


async def reach(lab: Lab, args: dict[str, Any]) -> Any:
    """Probes and TCP connections over every link of a healthy cluster; what the servers print."""
    probes = await probe_all(lab, args)
    await start_all(lab)
    pairs = [(a, b) for a in [*lab.nodes, CLIENT] for b in lab.nodes if a != b]
    tcp = {f"{a}>{b}": await connect(lab, a, b) for a, b in pairs}
    return {"probes": probes, "tcp": tcp, "logs": [node.log_tail() for node in lab.nodes.values()]}


async def patterns(lab: Lab, args: dict[str, Any]) -> Any:
    """Enforce each pattern; probe it, read it back, withdraw it, probe again. Gives the differences found."""
    wrong = []
    for number, pattern in enumerate(args["patterns"]):
        links = {Link(a, b): Effect(effect) for a, b, effect in pattern}
        wanted = dict.fromkeys(all_links(lab.nodes), Reach.OPEN)
        wanted |= {link: Reach.RESET if how is Effect.RESET else Reach.DROPPED for link, how in links.items()}
        await lab.network.apply(number, links)
        found = await probe_exactly(lab.network, wanted)
        if found != wanted or lab.network.read_back() != links:
            wrong.append([number, "applied", {str(link): r for link, r in found.items() if r != wanted[link]}])
        await lab.network.withdraw(number)
        found = await lab.network.probe(wanted, HEARD_S)
        if set(found.values()) != {Reach.OPEN} or lab.network.read_back() or lab.network.blocked:
            wrong.append([number, "withdrawn", {str(link): r for link, r in found.items() if r is not Reach.OPEN}])
    return wrong


async def connections(lab: Lab, args: dict[str, Any]) -> Any:
    """What open and new TCP connections meet under drop and reset, from a node and from a client."""
    await start_all(lab)
    loop = asyncio.get_running_loop()
    seen: dict[str, Any] = {}
    for source in ("n2", CLIENT):
        for effect in Effect:
            client = tcp_socket(lab, source)
            await loop.sock_connect(client, (lab.layout["n1"].address, PORT))
            before = await ask(lab, client, "hello")
            await lab.network.apply(1, {Link(source, "n1"): effect, Link("n1", source): effect})
            wait_s = _SILENCE_S if effect is Effect.DROP else DEADLINE_S
            during = await ask(lab, client, "hello", wait_s)
            new = await connect(lab, source, "n1", wait_s)
            beside = await connect(lab, "n3", "n1")
            await lab.network.heal_all()
            seen[f"{source} {effect}"] = [before, during, new, beside, await connect(lab, source, "n1")]
            client.close()
    return seen


async def any_order(lab: Lab, args: dict[str, Any]) -> Any:
    """A seeded sequence of contributions: the kernel must always hold the pure merge, and the links obey it."""
    draw = random.Random(args["seed"])
    every = list(all_links(lab.nodes))
    model = Contributions()
    for step in range(args["steps"]):
        fault = draw.randrange(4)
        match draw.choice(["apply", "apply", "apply", "withdraw", "withdraw", "heal"]):
            case "apply":
                links = {link: draw.choice(list(Effect)) for link in draw.sample(every, draw.randrange(len(every)))}
                await lab.network.apply(fault, links)
                model = model.with_fault(fault, links)
            case "withdraw":
                await lab.network.withdraw(fault)
                model = model.without_fault(fault)
            case _:
                await lab.network.heal_all()
                model = Contributions()
        merged = model.merged()
        assert lab.network.read_back() == merged == lab.network.blocked, f"step {step}"
        if step % 20 == 0:
            wanted = {link: _reach(merged.get(link)) for link in every}
            found = await probe_exactly(lab.network, wanted)
            wrong = {str(link): [found[link], wanted[link]] for link in every if found[link] is not wanted[link]}
            assert not wrong, f"step {step}: {wrong}"
    await lab.network.heal_all()
    await lab.network.heal_all()
    return {
        "left": len(lab.network.read_back()),
        "probes": sorted({*(await lab.network.probe(every, HEARD_S)).values()}),
    }


def _reach(effect: Effect | None) -> Reach:
    match effect:
        case None:
            return Reach.OPEN
        case Effect.DROP:
            return Reach.DROPPED
        case Effect.RESET:
            return Reach.RESET


async def refused_commit(lab: Lab, args: dict[str, Any]) -> Any:
    """A transaction that the kernel refuses changes neither the kernel nor what we think of it."""
    await lab.network.apply(1, {Link("n1", "n2"): Effect.DROP})
    good = link_rules.VERDICTS[Effect.RESET]
    link_rules.VERDICTS[Effect.RESET] = nftables.goto("nowhere")
    try:
        await lab.network.apply(2, {Link("n3", "n2"): Effect.RESET})
        message = ""
    except HarnessError as error:
        message = error.message
    finally:
        link_rules.VERDICTS[Effect.RESET] = good
    unchanged = lab.network.blocked == lab.network.read_back() == {Link("n1", "n2"): Effect.DROP}
    await lab.network.apply(2, {Link("n3", "n2"): Effect.RESET})
    try:
        await lab.network.apply(3, {Link("n1", "n9"): Effect.DROP})
    except HarnessError as error:
        return {"message": message, "unchanged": unchanged, "after": len(lab.network.read_back()), "no": error.message}
    return None


async def stalled_probe(lab: Lab, args: dict[str, Any]) -> Any:
    """The loop hangs for longer than the probes' time-out: nothing was dropped all the same."""
    task = asyncio.create_task(lab.network.probe(all_links(lab.nodes), timeout_s=0.05))
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - the stall is the point
    return sorted(set((await task).values()))


async def life(lab: Lab, args: dict[str, Any]) -> Any:
    """Start, pause, resume, kill while paused, start again with the data kept; hooks called every time."""
    await start_all(lab)
    node = lab.nodes["n1"]
    started: list[int] = []
    wrapped: list[int] = []

    def wrap(argv: tuple[str, ...]) -> list[str]:
        wrapped.append(len(argv))
        return ["/usr/bin/env", "WRAPPED=1", *argv]

    node.wrap_argv.append(wrap)
    node.on_start.append(lambda n: started.append(n.incarnation))
    seen: dict[str, Any] = {"states": [node.state], "cpu": node.cpu_ns() > 0, "pid": node.pid is not None}
    await node.pause()
    await node.pause()
    # A thread that waits for the processor stops only when it gets it.
    async with asyncio.timeout(DEADLINE_S):
        while set(node.thread_states().values()) != {"T"}:
            await asyncio.sleep(0.001)
    seen["states"].append(node.state)
    client = tcp_socket(lab, CLIENT)
    await asyncio.get_running_loop().sock_connect(client, (node.place.address, PORT))  # the kernel accepts for it
    seen["paused answer"] = await ask(lab, client, "hello", _SILENCE_S)
    await node.resume()
    await node.resume()
    seen["resumed threads"] = sorted(set(node.thread_states().values()))
    client.close()
    await node.pause()
    await node.kill()
    await node.kill()
    seen["states"].append(node.state)
    seen["threads after kill"] = node.thread_states()
    seen["pid after kill"] = node.pid
    async with asyncio.timeout(DEADLINE_S):
        exit = await lab.next_exit()
    seen["exit"] = [exit.node, exit.incarnation, exit.exit_status, exit.expected]
    await node.start()
    await until_serving(lab, node)
    seen["hooks"] = [started, len(wrapped), node.incarnation, node.state]
    seen["environ"] = "WRAPPED=1" in Path(f"/proc/{node.pid}/environ").read_text().split("\0")
    seen["log"] = node.log_tail()
    try:
        await node.start()
    except HarnessError as error:
        seen["twice"] = error.message
    return seen


async def unordered_exits(lab: Lab, args: dict[str, Any]) -> Any:
    """A server that exits by itself, one that is killed behind our back, and a child that outlives its server."""
    await start_all(lab)
    exits = []
    for name, line in (("n1", "exit 3"), ("n2", "fork"), ("n3", "fork")):
        client = tcp_socket(lab, CLIENT)
        await asyncio.get_running_loop().sock_connect(client, (lab.layout[name].address, PORT))
        answer = await ask(lab, client, line)
        assert line != "fork" or answer == "fork", "the server answers once its child is there"
        client.close()
    two, three = lab.nodes["n2"], lab.nodes["n3"]
    os.kill(two.pid or 0, signal.SIGKILL)
    for _ in range(2):
        async with asyncio.timeout(DEADLINE_S):
            exit = await lab.next_exit()
        exits.append([exit.node, exit.exit_status, exit.expected])
    left = len(two.thread_states())
    await three.kill()
    # Starting again ends the child that would hold the port, and answer nothing.
    await two.start()
    await until_serving(lab, two)
    client = tcp_socket(lab, CLIENT)
    await asyncio.get_running_loop().sock_connect(client, (lab.layout["n2"].address, PORT))
    again = [two.state, await ask(lab, client, "hello")]
    client.close()
    seen = {"exits": sorted(exits), "child left": left, "all killed": three.thread_states(), "again": again}
    async with asyncio.timeout(DEADLINE_S):
        await lab.next_exit()  # n3's
    # It dies, and before the loop can tell us we kill it ourselves.
    one = lab.nodes["n1"]
    await one.start()
    assert one.pid is not None
    os.kill(one.pid, signal.SIGKILL)
    # Until it has died, without reaping it; the loop must not run.
    os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
    await one.kill()
    late = await lab.next_exit()
    return {**seen, "killed late": [late.node, late.exit_status, late.expected]}


async def cancelled_start(lab: Lab, args: dict[str, Any]) -> Any:
    """A start is cancelled while its process is being born: it does not live on, and the node can be started."""
    await lab.realise(specs(lab))
    node = lab.nodes["n1"]
    home = str(node.place.folder)
    cancelled = 0
    for _ in range(20):
        task = asyncio.create_task(node.start())
        while not task.done() and not node.log.exists():
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1
        await node.kill()
        node.log.unlink()
    async with asyncio.timeout(DEADLINE_S):
        while home in _working_folders():
            await asyncio.sleep(0.01)
    await node.start()
    await until_serving(lab, node)
    return cancelled


def _working_folders() -> set[str]:
    """Of all processes that /proc shows, which may be those of other tests too."""
    found = set()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{name}/cwd"))
    return found


async def data(lab: Lab, args: dict[str, Any]) -> Any:
    """Files and data files of a spec, the size limit, and the copy that leaves the namespace."""
    await lab.realise(specs(lab, files={"conf/a": "1"}, data_files={"myid": "7"}))
    place = lab.layout["n1"]
    try:
        (place.data / "big").write_bytes(b"x" * (2 << 20))
        full = "no limit"
    except OSError as error:
        full = errno.errorcode[error.errno or 0]
    (place.data / "big").unlink()
    (place.data / "myid").write_text("8")
    await lab.nodes["n1"].start()
    await lab.nodes["n1"].kill()
    target = place.folder.parent / "n1.tar.gz"
    await lab.copy_data("n1", target)
    with tarfile.open(target) as archive:
        names = sorted(member.name for member in archive if member.isfile())
    mounts = sum(str(place.data) in line for line in Path("/proc/self/mountinfo").read_text().splitlines())
    kept = (place.data / "myid").read_text()
    await lab.nodes["n1"].wipe()
    wiped = {path.name: path.read_text() for path in place.data.iterdir()}
    await lab.close()
    await lab.close()
    after = sum("tmpfs" in line and str(place.folder) in line for line in Path("/proc/mounts").read_text().splitlines())
    devices = [name for _, name in socket.if_nameindex() if name.startswith("n")]
    return {
        "full": full,
        "names": names,
        "mounts": mounts,
        "kept": kept,
        "wiped": wiped,
        "after": after,
        "devices": devices,
    }


async def bad_specs(lab: Lab, args: dict[str, Any]) -> Any:
    """Each mistake in a spec is refused with a message that names it."""
    said = []
    for wrong in (specs(lab)[:-1], specs(lab, files={"../x": ""}), specs(lab, argv=("/no/such/program",))):
        try:
            await lab.realise(wrong)
            await lab.nodes["n1"].start()
        except HarnessError as error:
            said.append(error.message)
    return [said, lab.nodes["n1"].state == NodeState.NEW]


async def shut_one(lab: Lab, args: dict[str, Any]) -> Any:
    """For two labs at once: cut a link of ours, meet the other, look again whether ours alone is cut."""
    links = {Link("n1", "n2"): Effect.DROP} if args["cut"] else {}
    await lab.network.apply(1, links)
    Path(args["mine"]).touch()
    async with asyncio.timeout(DEADLINE_S):
        while not Path(args["other"]).exists():
            await asyncio.sleep(0.01)
    wanted = {link: _reach(links.get(link)) for link in all_links(lab.nodes)}
    found = await probe_exactly(lab.network, wanted)
    return sorted(str(link) for link, reach in found.items() if reach is not Reach.OPEN)


async def live_on(lab: Lab, args: dict[str, Any]) -> Any:
    """Be killed: servers up, a link cut, a node paused, and no end."""
    await start_all(lab)
    await lab.network.apply(1, {Link("n1", "n2"): Effect.DROP})
    await lab.nodes["n3"].pause()
    Path(args["mark"]).write_text(str([os.getpid()]))
    await asyncio.sleep(600)


async def crash(lab: Lab, args: dict[str, Any]) -> Any:
    await start_all(lab)
    os._exit(args["status"])


async def count_signals(lab: Lab, args: dict[str, Any]) -> Any:
    """How often each signal arrives that the outer process is sent; `mark` holds those that came so far."""
    got: list[str] = []
    loop = asyncio.get_running_loop()
    mark = Path(args["mark"])

    def note(name: str) -> None:
        got.append(name)
        mark.write_text(" ".join(got))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, note, number.name)
    mark.touch()
    async with asyncio.timeout(DEADLINE_S):
        while len(got) < 3:
            await asyncio.sleep(0.01)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            await asyncio.Event().wait()
    return got


async def no_more_namespaces(lab: Lab, args: dict[str, Any]) -> Any:
    """With no network namespace left to have, the machine is refused by the name of the setting."""
    from fencepost.harness.runtime.lab.provider import refuse_if_impossible

    Path("/proc/sys/user/max_net_namespaces").write_text("0")
    try:
        refuse_if_impossible()
    except MachineError as error:
        return [error.message, error.hint]
    return None


async def root_without_user_namespaces(lab: Lab, args: dict[str, Any]) -> Any:
    """Root enters a lab where user namespaces are forbidden: here a second one inside the first."""
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    folder = lab.layout["n1"].folder / "inner"
    folder.mkdir()
    inner = start_scenario(f"{__name__}:probe_all", {}, nodes=1, folder=folder)
    output, _ = await asyncio.to_thread(inner.communicate, timeout=DEADLINE_S)
    assert inner.returncode == 0, output
    return json.loads((folder / "result.json").read_text())


async def refusal_storm(lab: Lab, args: dict[str, Any]) -> Any:
    """Many probes of reset links in a row: the kernel's limit on ICMP errors must not turn them into drops.

    Nor must any of them wait to be heard: what one end meets while it sends, and what comes after an error.
    """
    links = {Link("n1", name): Effect.RESET for name in lab.nodes if name != "n1"}
    links |= {Link(name, "n1"): Effect.RESET for name in lab.nodes if name != "n1"}
    links |= {Link("n1", CLIENT): Effect.RESET, Link(CLIENT, "n1"): Effect.RESET}
    await lab.network.apply(1, links)
    found = [{*(await lab.network.probe(links, FOREVER_S)).values()} for _ in range(20)]
    assert probe.PORT not in (PORT,)
    await lab.network.heal_all()
    # The second datagram meets the refusal of the first, and nothing comes that would wake anybody up for it.
    wanted = {Link("n1", "n2"): Reach.RESET, Link("n1", "n3"): Reach.OPEN}
    await lab.network.apply(2, {Link("n1", "n2"): Effect.RESET})
    assert await probe_exactly(lab.network, wanted, FOREVER_S) == wanted
    return sorted(set().union(*found))
