"""Which epoch a broker's answer is of, by its own log."""

import asyncio
from pathlib import Path
from typing import cast

import msgspec
import pytest

from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import Definite
from fencepost.harness.history import Claim
from fencepost.systems.kafka.zookeeper_mode.question import DatedQuestion, ZnodeQuestion, dated_controller, dated_view
from fencepost.systems.kafka.zookeeper_mode.role_log import Role, RoleLog, after
from fencepost.systems.zookeeper.wire.jute import Stat
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

STARTING = "22:01:01.416 INFO KafkaServer - starting"
STARTING_2_8 = "22:01:01.416 INFO KafkaServer - [KafkaServer id=5] starting"
ELECTED = (
    "22:01:27.545 INFO KafkaController - [Controller id=5] 5 successfully elected as the controller. Epoch incremented "
    "to {} and epoch zk version is now {}"
)
RESIGNED = "22:01:20.761 INFO KafkaController - [Controller id=5] Resigned"
TOLD = (
    "22:01:20.882 INFO logger - [Broker id=5] Add 34 partitions and deleted 0 partitions from metadata cache in "
    "response to UpdateMetadata request sent by controller {} epoch {} with correlation id 0"
)


def elected(epoch: int) -> str:
    return ELECTED.format(epoch, epoch)


def told(broker: int, epoch: int) -> str:
    return TOLD.format(broker, epoch)


def role(*lines: str) -> Role:
    found = Role()
    for line in lines:
        found = after(found, line)
    return found


@pytest.mark.parametrize(
    ("lines", "leads", "elected_in", "was_told"),
    [
        ((), None, None, None),
        ((elected(1),), 1, 1, None),
        ((elected(1), told(5, 1)), 1, 1, (5, 1)),
        ((elected(1), RESIGNED), None, 1, None),
        ((elected(1), RESIGNED, told(4, 2)), None, 1, (4, 2)),
        ((elected(1), RESIGNED, elected(3)), 3, 3, None),
        # A process that was killed resigned from nothing: the next one knows nothing.
        ((elected(1), told(5, 1), STARTING), None, None, None),
        ((elected(1), told(5, 1), STARTING_2_8), None, None, None),
        (("22:01:03.473 INFO KafkaServer - [KafkaServer id=5] started", RESIGNED), None, None, None),
    ],
)
def test_the_role_by_the_lines(
    lines: tuple[str, ...], leads: int | None, elected_in: int | None, was_told: tuple[int, int] | None
) -> None:
    found = role(*lines)
    assert (found.leads, found.elected, found.view) == (leads, elected_in, was_told)


YES = Answer(claims=Claim.YES, source="validate-only", epoch_exact=False, leader="b2")
NO = Answer(claims=Claim.NO, source="validate-only", epoch_exact=False)


@pytest.mark.parametrize(
    ("answer", "before", "behind", "epoch", "exact"),
    [
        (YES, role(elected(1)), role(elected(1)), 1, True),
        # It may have been elected again behind the line that says that it resigned.
        (YES, role(elected(1)), role(elected(1), RESIGNED), 1, False),
        (YES, role(elected(1), RESIGNED), role(elected(1), RESIGNED), 1, False),
        (YES, role(elected(1)), role(elected(1), RESIGNED, elected(3)), 1, False),
        (YES, role(), role(elected(1)), None, False),
        (NO, role(elected(1)), role(elected(1)), None, False),
    ],
)
def test_a_controllers_answer_has_the_epoch_that_its_log_proves(
    answer: Answer, before: Role, behind: Role, epoch: int | None, exact: bool
) -> None:
    found = dated_controller(answer, before, behind)
    assert (found.epoch, found.epoch_exact, found.claims) == (epoch, exact, answer.claims)


@pytest.mark.parametrize(
    ("leader", "claims", "before", "behind", "epoch"),
    [
        ("b1", Claim.NO, role(told(4, 2)), role(told(4, 2)), 2),
        ("b1", Claim.NO, role(told(4, 2)), role(told(4, 2), told(4, 4)), None),
        ("b1", Claim.NO, role(told(6, 2)), role(told(6, 2)), None),
        (None, Claim.NO, role(told(4, 2)), role(told(4, 2)), None),
        ("b2", Claim.YES, role(elected(1), told(5, 1)), role(elected(1), told(5, 1)), 1),
        # It resigned, and was told nothing yet: it still names itself, of the epoch in which it was told so.
        ("b2", Claim.YES, role(elected(1), told(5, 1)), role(elected(1), told(5, 1), RESIGNED), 1),
        ("b2", Claim.YES, role(elected(1), told(5, 1)), role(elected(1), told(5, 1), RESIGNED, elected(3)), None),
        ("b2", Claim.YES, role(elected(1)), role(elected(1)), None),
    ],
)
def test_a_view_has_the_epoch_that_it_was_told(
    leader: str | None, claims: Claim, before: Role, behind: Role, epoch: int | None
) -> None:
    answer = Answer(claims=claims, source="metadata", epoch_exact=False, leader=leader)
    found = dated_view(answer, before, behind)
    assert (found.epoch, found.epoch_exact) == (epoch, epoch is not None)


def test_the_log_is_read_before_the_question_and_after_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(f"{STARTING}\n{elected(1)}\n")

    class Slow:
        """Resigns while it is asked."""

        async def ask(self) -> Answer:
            with path.open("a") as file:
                file.write(f"{RESIGNED}\n")
            return YES

        async def close(self) -> None:
            path.unlink()

    async def scenario() -> list[Answer]:
        question = DatedQuestion(Slow(), RoleLog(path), dated_controller)
        said = [await question.ask()]
        with path.open("a") as file:
            file.write(f"{elected(3)}\n")
        said += [await DatedQuestion(_Says(YES), RoleLog(path), dated_controller).ask()]
        await question.close()
        return said

    first, second = asyncio.run(scenario())
    assert (first.epoch, first.epoch_exact) == (1, False)
    assert (second.epoch, second.epoch_exact) == (3, True)
    assert not path.exists()


class _Says(msgspec.Struct):
    answer: Answer

    async def ask(self) -> Answer:
        return self.answer

    async def close(self) -> None:
        """Nothing is kept."""


class _Copy:
    """A ZooKeeper server's copy of both znodes: who made them last, by zxid; `gone` is what goes before it is read."""

    def __init__(self, epoch_zxid: int, made_zxid: int | None, gone: bool = False) -> None:
        self.epoch_zxid, self.made_zxid, self.gone, self.closed = epoch_zxid, made_zxid, gone, False

    async def get(self, path: str) -> tuple[bytes, Stat]:
        if path == "/controller_epoch":
            return b"3", _stat(self.epoch_zxid)
        if self.gone or self.made_zxid is None:
            raise Definite("no-node")
        return b'{"version":2,"brokerid":5}', _stat(self.made_zxid, owner=0x1B)

    async def exists(self, path: str) -> Stat | None:
        return None if self.made_zxid is None else _stat(self.made_zxid)

    def close(self) -> None:
        self.closed = True


def _stat(zxid: int, owner: int = 0) -> Stat:
    return Stat(zxid, zxid, 0, 0, 0, 0, 0, owner, 0, 0, 0)


def _asked(copy: _Copy) -> tuple[Answer | str, bool]:
    async def scenario() -> tuple[Answer | str, bool]:
        question = ZnodeQuestion("127.0.0.1", 1)
        question._session = cast(ZooKeeperSession, copy)
        try:
            return await question.ask(), copy.closed
        except Definite as error:
            return error.code, copy.closed

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("copy", "leader", "exact", "detail"),
    [
        (_Copy(70, 70), "b2", True, "session 0x1b"),
        # Another one was elected between the two reads.
        (_Copy(70, 90), "b2", False, "session 0x1b"),
        (_Copy(70, None), None, False, "nobody"),
    ],
)
def test_a_copy_is_of_one_epoch_when_one_transaction_made_it(
    copy: _Copy, leader: str | None, exact: bool, detail: str
) -> None:
    said, closed = _asked(copy)
    assert isinstance(said, Answer)
    assert (said.claims, said.epoch, said.leader, said.epoch_exact, said.detail) == (Claim.NO, 3, leader, exact, detail)
    assert not closed


def test_a_znode_that_goes_between_two_reads_costs_no_session() -> None:
    assert _asked(_Copy(70, 70, gone=True)) == ("no-node", False)
