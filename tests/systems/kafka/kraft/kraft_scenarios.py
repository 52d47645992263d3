"""What happens to Kafka clusters in the lab; judged by `test_kraft_cluster` and `test_kafka_zk_cluster`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from fencepost.harness.contract.logs import BecameLeader, Failed
from fencepost.harness.contract.system import Answer, Question, System
from fencepost.harness.coordination import Definite, Indefinite, Interface, Needs, Partitions, prepare
from fencepost.harness.history import Claim
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.network import Effect, Link
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.client.log import KafkaLog
from fencepost.systems.kafka.client.metadata import KafkaMetadata
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.sessions import KafkaProducerIds
from fencepost.systems.kafka.kraft import KRAFT, Kraft
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.protocols import KafkaInterface, MetadataKind, MetadataNeeds
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK, KafkaZk
from tests.systems.contract.patience import PATIENCE_S, once
from tests.systems.contract.patience import until as until_true

#: By interface.
NEEDS: Final[Mapping[str, Needs]] = {
    KafkaInterface.METADATA: MetadataNeeds(("k0", "k1"), 2),
    Interface.LOG: Partitions(2, 1),
}
S = TypeVar("S", bound=KafkaSession)


def _system(lab: Lab) -> KafkaZk | Kraft:
    return KAFKA_ZK if "z1" in lab.layout else KRAFT


async def start(lab: Lab, version: str, options: dict[str, object]) -> dict[str, float]:
    """Seconds from the first exec to a leader, to the first acknowledged change, and to a healthy cluster."""
    artifacts = _system(lab).releases.resolve(version)
    system: System = _system(lab)
    await lab.realise(system.specs(lab.layout, artifacts, system.profile.parse_options(options)))
    began = time.monotonic()
    for node in lab.nodes.values():
        await node.start()
    await until(lambda: all_ready(lab), "ready", lab)
    ready = time.monotonic() - began
    await first_change(lab)
    changed = time.monotonic() - began
    await until(lambda: healthy(lab), "healthy", lab)
    return {"ready_s": ready, "changed_s": changed, "healthy_s": time.monotonic() - began}


async def until(condition: Callable[[], Awaitable[str | None]], what: str, lab: Lab, timeout_s: float = 60.0) -> float:
    """Wait until nothing is wrong any more; seconds that it took."""
    began = time.monotonic()
    wrong: str | None = "never asked"
    try:
        async with asyncio.timeout(timeout_s):
            while (wrong := await condition()) is not None:
                await asyncio.sleep(0.02)
    except TimeoutError:
        tails = "\n".join(f"--- {name}\n{node.log_tail(15)}" for name, node in lab.nodes.items())
        raise AssertionError(f"not {what}: {wrong}\n{tails}") from None
    return time.monotonic() - began


async def healthy(lab: Lab) -> str | None:
    return await _system(lab).healthy(lab.layout)


async def all_ready(lab: Lab) -> str | None:
    for node in lab.nodes.values():
        try:
            if not await _system(lab).ready(node):
                return f"{node.name} is not ready"
        except (Definite, Indefinite, OSError, TimeoutError) as error:
            return f"{node.name}: {error!r}"
    return None


async def opened(lab: Lab, name: str, made: type[S]) -> S:
    """A session of this class, as `open_client` makes it for its interface."""
    place = lab.layout[name]
    node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=PATIENCE_S)
    return made(node, place.number, connect_timeout_s=PATIENCE_S)


def _clients(lab: Lab) -> list[str]:
    return [name for name, place in lab.layout.items() if "zookeeper" not in place.roles]


async def first_change(lab: Lab) -> None:
    """Topics made through the first node that takes it, as a run prepares them."""
    async with asyncio.timeout(60):
        while True:
            for name in _clients(lab):
                with suppress(Definite, Indefinite):
                    for interface, needs in NEEDS.items():
                        session = await _system(lab).open_client(
                            lab.layout[name], interface, connect_timeout_s=PATIENCE_S
                        )
                        try:
                            await prepare(session, needs)
                        finally:
                            await session.close()
                    return
            await asyncio.sleep(0.02)


async def asked(question: Question | None, timeout_s: float = 0.5) -> Answer | None:
    """None is silence."""
    assert question is not None
    try:
        async with asyncio.timeout(timeout_s):
            return await question.ask()
    except (Definite, Indefinite, OSError, TimeoutError):
        return None


async def leader(lab: Lab, subject: str) -> tuple[str | None, int | None]:
    """Who claims to lead in the highest epoch."""
    claims = []
    for name, place in lab.layout.items():
        question = _system(lab).question(place, subject)
        if question is None:
            continue
        answer = await asked(question)
        await question.close()
        if answer is not None and answer.claims is Claim.YES:
            claims.append((answer.epoch or 0, name))
    if not claims:
        return None, None
    epoch, name = max(claims)
    return name, epoch


def resident_mib(lab: Lab) -> float:
    """Of all servers together."""
    total = 0
    for node in lab.nodes.values():
        lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return total / 1024


async def outcome(request: Awaitable[Any], timeout_s: float = PATIENCE_S) -> list[Any]:
    """[kind, code or answer], the deadline applied as the interpreter does: by cancelling."""
    try:
        async with asyncio.timeout(timeout_s):
            return ["ok", repr(await request)]
    except Definite as error:
        return ["definite", error.code]
    except Indefinite as error:
        return ["indefinite", error.code]
    except TimeoutError:
        return ["cancelled", "timeout"]


# Scenarios


async def starts(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """Up, asked, its memory; every protocol once; the log's word on who leads."""
    found: dict[str, Any] = {"times": await start(lab, args["version"], args.get("options", {}))}
    found["resident_mib"] = resident_mib(lab)
    # Again, where they elected between two questions, or one was kept waiting.
    said: dict[str, Any] = await once(lambda: _who_leads(lab), _is_of_one_epoch)
    found |= said
    found["fatal"] = [
        event.why
        for node in lab.nodes.values()
        for event in _system(lab).logs.events(node.log.open())
        if isinstance(event, Failed)
    ]
    brokers = [name for name, place in lab.layout.items() if "broker" in place.roles]
    active = str(found["controller"][0])
    found["operations"] = {name: await _operations(lab, name) for name in dict.fromkeys((active, brokers[0]))}
    return found


async def _who_leads(lab: Lab) -> dict[str, Any]:
    """By subject who leads and in which epoch; and by node the epochs that its log says it led."""
    said: dict[str, Any] = {subject: await leader(lab, subject) for subject in _system(lab).profile.subjects}
    said["in the log"] = {
        name: [
            event.epoch
            for event in _system(lab).logs.events(node.log.read_text().splitlines())
            if isinstance(event, BecameLeader)
        ]
        for name, node in lab.nodes.items()
    }
    return said


def _is_of_one_epoch(said: dict[str, Any]) -> bool:
    leaders = {said[subject] for subject in said if subject != "in the log"}
    names = {name for name, _ in leaders}
    logged = {epoch for name in names - {None} for epoch in said["in the log"][name][-1:]}
    return len(names) == 1 and None not in names and {epoch for _, epoch in leaders} - {None, 0} <= logged


async def _operations(lab: Lab, name: str) -> dict[str, Any]:
    session, log = await opened(lab, name, KafkaMetadata), await opened(lab, name, KafkaLog)
    ids, setting = await opened(lab, name, KafkaProducerIds), MetadataKind.SETTING
    said = {
        "alter": await outcome(session.alter(setting, "k0", b"17")),
        "create": await outcome(session.create_name(f"of-{name}")),
        "create again": await outcome(session.create_name(f"of-{name}")),
        "taken": await outcome(session.name_taken(f"of-{name}")),
        "not taken": await outcome(session.name_taken("never-made")),
        "allocate": await outcome(_first_id(ids)),
        "append": await outcome(log.append(0, b"x")),
        "poll": await outcome(log.poll(0, 0)),
    }
    # A node's own copy, which may lag.
    said["describe"] = await once(lambda: outcome(session.describe(setting, "k0")), lambda end: "b'17'" in end[1])
    said["describe unset"] = await outcome(session.describe(setting, "k1"))
    for opened_one in (session, log, ids):
        await opened_one.close()
    return said


async def _first_id(session: KafkaProducerIds) -> int:
    """A broker refuses while it has no block of ids (error 14)."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await session.allocate()
            except Definite as error:
                if error.code != "coordinator-load-in-progress":
                    raise
                await asyncio.sleep(0.05)


async def zombie(lab: Lab, args: dict[str, Any]) -> dict[str, Any]:
    """The active controller cut from its peers both ways; who claims what, meanwhile and after.

    For `hold_s`, or else until it has resigned and another leads, at most PATIENCE_S.
    """
    await start(lab, args["version"], args.get("options", {}))
    old, epoch = await once(lambda: leader(lab, "raft"), lambda found: found[0] is not None)
    assert old is not None
    assert epoch is not None
    others = [name for name, place in lab.layout.items() if place.number != lab.layout[old].number and name[0] == "n"]
    cut = {link: Effect.DROP for other in others for link in (Link(old, other), Link(other, old))}
    watch = _Watch(lab)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watch.run())
        await lab.network.apply(1, cut)
        watch.began = time.monotonic()
        if "hold_s" in args:
            await asyncio.sleep(args["hold_s"])
        else:
            with suppress(TimeoutError):
                await until_true(lambda: watch.is_replaced(old, epoch))
        wrong = await once(lambda: healthy(lab), lambda wrong: wrong is not None and old in wrong)
        resigned = watch.is_replaced(old, epoch)
        await lab.network.heal_all()
        healed = time.monotonic() - watch.began
        recovered = await until(lambda: healthy(lab), "healthy after healing", lab, 60)
        await asyncio.sleep(0.5)
        watching.cancel()
    return {
        "old": old,
        "wrong while cut": wrong,
        "epoch": epoch,
        "healed_s": healed,
        "healthy_after_s": recovered,
        "claims": watch.claims(),
        "replaced": resigned,
        "after": await once(lambda: leader(lab, "raft"), lambda found: found[0] is not None),
    }


class _Watch:
    """Asks every controller about both layers, and brokers about one, about ten times a second."""

    def __init__(self, lab: Lab) -> None:
        self.began = time.monotonic()
        self._seen: dict[tuple[str, str, int | None], list[float]] = {}
        self._resigned: set[tuple[str, str]] = set()
        self._questions = [
            (place.name, subject, question)
            for place in lab.layout.values()
            for subject in _system(lab).profile.subjects
            if (question := _system(lab).question(place, subject)) is not None
        ]

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for name, subject, question in self._questions:
                    group.create_task(self._ask(name, subject, question))
        finally:
            for _, _, question in self._questions:
                await question.close()

    async def _ask(self, name: str, subject: str, question: Question) -> None:
        while True:
            answer = await asked(question)
            if answer is not None and answer.claims is Claim.NO:
                self._resigned.add((subject, name))
            if answer is not None and answer.claims is Claim.YES:
                self._resigned.discard((subject, name))
                at = time.monotonic() - self.began
                self._seen.setdefault((subject, name, answer.epoch), []).append(at)
            await asyncio.sleep(0.1)

    def is_replaced(self, old: str, epoch: int) -> bool:
        """Whether `old` last said that it does not lead the quorum, and another said that it leads a later epoch."""
        later = [
            name
            for subject, name, of in self._seen
            if subject == "raft" and name != old and of is not None and of > epoch
        ]
        return ("raft", old) in self._resigned and bool(later)

    def claims(self) -> list[list[Any]]:
        """[subject, node, epoch, first and last moment of the claim in seconds since the cut]."""
        return [[*key, round(min(at), 2), round(max(at), 2)] for key, at in self._seen.items()]
