"""What an answer to "do you lead?" is made of, against a server that answers as it is told."""

import asyncio
from typing import Any

import grpc
import pytest

from fencepost.harness.coordination import Indefinite
from fencepost.harness.history import Claim
from fencepost.systems.etcd.health import EtcdHealth
from fencepost.systems.etcd.question import EtcdQuestion
from fencepost.systems.etcd.system import disagreement
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.etcd import etcd_scripts as scripts

MEMBERS = {0x11: "n1", 0x22: "n2", 0x33: ""}


@pytest.fixture(autouse=True)
def _dials_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """These servers share a process, which may be busy, with whoever dials."""
    monkeypatch.setattr("fencepost.systems.etcd.question._DIAL_S", PATIENCE_S)


def _status(leader: int, **fields: Any) -> "rpc.StatusResponse":
    header = rpc.ResponseHeader(member_id=0x11, revision=70)
    return rpc.StatusResponse(header=header, leader=leader, raftTerm=5, **fields)


class Script:
    """Answers Status with what `status` holds and MemberList with `members`; counts both."""

    def __init__(self, status: Any) -> None:
        self.status = status
        self.members = dict(MEMBERS)
        self.asked: list[str] = []

    def __call__(self, method: str, request: bytes) -> Any:
        self.asked.append(method.rsplit("/", 1)[1])
        if self.asked[-1] == "Status":
            return self.status
        assert not rpc.MemberListRequest.FromString(request).linearizable, "a node that is cut off could not answer"
        return rpc.MemberListResponse(members=[rpc.Member(ID=i, name=name) for i, name in self.members.items()])


def test_an_answer_is_the_nodes_own_word() -> None:
    async def scenario() -> None:
        script = Script(_status(0x11))
        async with scripts.scripted(script) as port:
            question = EtcdQuestion("127.0.0.1", port)
            answer = await question.ask()
            assert (answer.claims, answer.leader, answer.epoch, answer.position) == (Claim.YES, "n1", 5, 70)
            assert (answer.source, answer.epoch_exact, answer.detail) == ("status", False, None)
            script.status = _status(0x22)
            answer = await question.ask()
            assert (answer.claims, answer.leader) == (Claim.NO, "n2")
            script.status = _status(0, errors=["etcdserver: no leader"])
            answer = await question.ask()
            assert (answer.claims, answer.leader, answer.detail) == (Claim.NO, None, "etcdserver: no leader")
            assert script.asked.count("MemberList") == 1, "names are learned once"
            script.status = _status(0x33)
            assert (await question.ask()).leader == "33", "a member that has not told its name yet"
            script.members[0x33] = "n3"
            assert (await question.ask()).leader == "n3"
            await question.close()
            with pytest.raises(RuntimeError, match="after close"):
                await question.ask()

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_member_without_an_id_does_not_lead() -> None:
    async def scenario() -> None:
        script = Script(rpc.StatusResponse(raftTerm=1))
        async with scripts.scripted(script) as port:
            question = EtcdQuestion("127.0.0.1", port)
            assert (await question.ask()).claims is Claim.NO
            await question.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_refusal_is_no_answer() -> None:
    async def scenario() -> None:
        async with scripts.scripted(Script((grpc.StatusCode.UNAVAILABLE, "etcdserver: server stopped"))) as port:
            question = EtcdQuestion("127.0.0.1", port)
            with pytest.raises(Indefinite):
                await question.ask()
            await question.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_node_that_comes_back_is_asked_over_a_new_connection() -> None:
    """The client never reconnects; the observer does."""

    async def scenario() -> None:
        async with scripts.raw(lambda stream: b"") as wire:
            question = EtcdQuestion("127.0.0.1", wire.port)
            while wire.connections < 3:
                served, asking = wire.requests, asyncio.create_task(question.ask())
                while wire.requests == served and not asking.done():
                    await asyncio.sleep(0.01)
                wire.cut()
                with pytest.raises(Indefinite):
                    await asking
            await question.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_silent_connection_is_replaced_only_after_it_had_answered() -> None:
    async def scenario() -> None:
        never, came, silent = asyncio.Event(), asyncio.Event(), [False]

        async def wait() -> None:
            came.set()
            await never.wait()

        async def unanswered(question: EtcdQuestion) -> None:
            """Ask, and give up when the question has come: earlier, a busy server would not know of it."""
            came.clear()
            asking = asyncio.create_task(question.ask())
            await came.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

        script = Script(_status(0x11))
        async with scripts.scripted(lambda *asked: wait() if silent[0] else script(*asked)) as port:
            question = EtcdQuestion("127.0.0.1", port)
            await question.ask()
            first = question._line
            silent[0] = True
            for expected in (first, first, None):
                await unanswered(question)
                assert question._line is expected
            await unanswered(question)
            second = question._line
            assert second is not None
            assert second is not first
            for _ in range(4):
                await unanswered(question)
            assert question._line is second, "another could not do better"
            silent[0] = False
            assert (await question.ask()).claims is Claim.YES
            assert not question._retired
            await question.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([EtcdHealth(node="n1", leader=1, term=2), EtcdHealth(node="n2", leader=1, term=2)], None),
        (
            [EtcdHealth(node="n1", leader=1, term=2), EtcdHealth(node="n2", leader=1, term=3)],
            "the members disagree: n1 follows 1 in term 2, n2 follows 1 in term 3",
        ),
        (
            [EtcdHealth(node="n1", leader=1, term=2), EtcdHealth(node="n2", leader=31, term=2)],
            "the members disagree: n1 follows 1 in term 2, n2 follows 1f in term 2",
        ),
        (
            [
                EtcdHealth(node="n1", wrong="it is late"),
                EtcdHealth(node="n2", leader=1, term=2),
                EtcdHealth(node="n3", wrong="no"),
            ],
            "n1: it is late; n3: no",
        ),
    ],
)
def test_health_is_agreement(found: list[EtcdHealth], expected: str | None) -> None:
    assert disagreement(found) == expected
