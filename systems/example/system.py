"""The example as a system under test: Python processes, available wherever fencepost is installed."""

import asyncio
import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.logs import LogTable, epoch
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.server_settings import NO_SETTINGS, Settings
from fencepost.harness.contract.system import Answer, BaseReleases, BaseSystem, Question, ReplicaState
from fencepost.harness.coordination import ClientSession, Definite, Indefinite, Interface, ReadMode
from fencepost.harness.history import Claim, Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.verdict import LeadershipBound, LeaseBound, ResumeBound, Standing, Vocabulary
from fencepost.systems.example.client import ExampleClient, ExampleQuestion, connect
from fencepost.systems.example.options import ExampleOptions

CLIENT_PORT: Final = 7000
PEER_PORT: Final = 7001
_SERVER: Final = "fencepost.systems.example.server"
#: One attempt to ask a node.
_ATTEMPT_S: Final = 1.0


class ExampleReleases(BaseReleases):
    """The one release: the installed one."""

    @property
    def default(self) -> str:
        return installed_version("fencepost")

    def resolve(self, version: str) -> Artifacts:
        if version != self.default:
            raise UsageError(f"the example is of version {self.default}, not {version!r}", hint="leave --version out")
        return Artifacts(version=version, paths={"python": sys.executable}, sha256={})


class ExampleSystem(BaseSystem[ExampleOptions]):
    """`harness.contract.system.System`."""

    profile = Profile(
        name="example",
        options=ExampleOptions,
        interfaces=frozenset({Interface.STORAGE, Interface.LEASES, Interface.MEMBERSHIP}),
        reads={ReadMode.STRONG: "linearizable", ReadMode.PLAIN: "session-order"},
        listeners={"client": CLIENT_PORT, "peer": PEER_PORT},
        vocabulary=Vocabulary(epoch="term"),
        sizes=(1, 3, 5),
    )
    releases = ExampleReleases()
    logs = LogTable(became_leader={r"leader of epoch (\d+)$": epoch})
    guarantees = Path(__file__).with_name("guarantees.toml")

    def specs(
        self, layout: Layout, artifacts: Artifacts, options: ExampleOptions, settings: Settings = NO_SETTINGS
    ) -> list[NodeSpec]:
        return [
            NodeSpec(
                name=place.name,
                argv=(artifacts.paths["python"], "-m", _SERVER, *_flags(place, layout, options)),
                listeners=self.profile.listeners,
            )
            for place in layout.values()
        ]

    def leadership(self, options: ExampleOptions, version: str = "") -> LeadershipBound:
        return LeadershipBound(
            # The leader checks every tenth of an election time-out.
            bound_ns=options.election * 21 // 10,
            source="CheckQuorum: a leader that hears no majority for two election time-outs steps down",
            standing=Standing.PROMISED,
            one_leader_per_epoch=True,
            clocks=(Clock.MONOTONIC,),
        )

    def lease_bound(self, options: ExampleOptions) -> LeaseBound:
        return LeaseBound(
            extra_ns=options.election // 10 + 1_000_000_000,
            source="the leader looks for leases that are over every tenth of an election time-out; plus 1 s to commit",
            clocks=(Clock.MONOTONIC,),
        )

    def resume_bound(self, options: ExampleOptions) -> ResumeBound:
        return ResumeBound(
            # A vote may be split, and be repeated after two time-outs at most.
            bound_ns=options.election * 6,
            source="a follower stands after one to two election time-outs without a leader; three attempts",
        )

    async def replica_states(self, place: Place) -> list[ReplicaState]:
        line = await connect(*place.dial(CLIENT_PORT), _ATTEMPT_S)
        try:
            answer = await line.request({"command": {"op": "dump"}, "plain": True})
        finally:
            line.close()
        return [ReplicaState(entries=answer["entries"], position=answer["position"])]

    async def ready(self, node: Node) -> bool:
        """Whether the node answers and knows a leader."""
        answer = await _ask(node.place)
        return answer is not None and answer.leader is not None

    async def healthy(self, layout: Layout) -> str | None:
        answers = await asyncio.gather(*(_ask(place) for place in layout.values()))
        mute = [name for name, answer in zip(layout, answers, strict=True) if answer is None]
        if mute:
            return f"no answer from {', '.join(mute)}"
        if len({(answer.leader, answer.epoch) for answer in answers if answer}) != 1 or not any(
            answer.claims is Claim.YES for answer in answers if answer
        ):
            return "the nodes disagree on the leader"
        return None

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: ExampleOptions | None = None
    ) -> ClientSession:
        return ExampleClient(await connect(*place.dial(CLIENT_PORT), connect_timeout_s))

    def question(self, place: Place, subject: str) -> Question:
        return ExampleQuestion(*place.dial(CLIENT_PORT))


async def _ask(place: Place) -> Answer | None:
    """One short attempt; None when no answer came."""
    question = ExampleQuestion(*place.dial(CLIENT_PORT))
    try:
        async with asyncio.timeout(_ATTEMPT_S):
            return await question.ask()
    except (Definite, Indefinite, TimeoutError):
        return None
    finally:
        await question.close()


def _flags(place: Place, layout: Layout, options: ExampleOptions) -> tuple[str, ...]:
    others = [other for other in layout.values() if other.name != place.name]
    flags = {
        "--name": place.name,
        "--address": place.address,
        "--client-port": str(CLIENT_PORT),
        "--peer-port": str(place.peer(PEER_PORT)[1]),
        "--data": str(place.data),
        "--election-s": str(options.election.seconds),
        "--defect": options.defect,
    }
    peers = [f"{other.name}={':'.join(map(str, other.peer(PEER_PORT)))}" for other in others]
    return (*(word for flag in flags.items() for word in flag), "--peers", *peers)


EXAMPLE: Final = ExampleSystem()
