"""Waiting for a server, in virtual time: ready, ended, late, or never to be ready by the word of its own log."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fencepost.harness.base.errors import NodeNotReady
from fencepost.harness.contract.logs import LogTable
from fencepost.harness.contract.system import System
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.readiness import await_ready, refuse_dead
from fencepost.harness.runtime.node import Exit, Node, NodeState, death_of
from tests.fakes.fakes_runtime import FakeNode
from tests.fakes.virtual_time import run_virtual

DEADLINE_S = 5.0
LACKS = "ERROR Loader - java.lang.NoClassDefFoundError: x/Y\n"


class FakeSystem:
    """Ready after so many questions; a line that names a class that is missing is fatal."""

    def __init__(self, ready_after: int) -> None:
        self.left = ready_after

    async def ready(self, node: Node) -> bool:
        self.left -= 1
        return self.left < 0

    logs = LogTable(failed={".*NoClassDefFoundError.*": lambda match: f"a class is missing: {match[0]}"})


class Logging(FakeNode):
    def log_tail(self, lines: int = 20) -> str:
        return "fatal: licence expired"


class Records:
    """What was recorded; `waited_s` counts from the first question to the end."""

    def __init__(self) -> None:
        self.changes: list[Any] = []
        self.waited_s = -1.0

    def record(self, kind: type, **fields: Any) -> None:
        self.changes.append(fields["change"])


def wait(
    log: Path,
    *,
    ready_after: int,
    incarnation: int = 0,
    state: NodeState = NodeState.RUNNING,
    records: Records | None = None,
) -> Records:
    node = SimpleNamespace(
        name="b1",
        incarnation=incarnation,
        state=state,
        pid=1,
        log=log,
        spec=SimpleNamespace(ready_timeout_s=DEADLINE_S),
        log_tail=lambda lines: log.read_text(),
    )
    records = records or Records()

    async def timed() -> None:
        try:
            await await_ready(cast(System, FakeSystem(ready_after)), cast(Node, node), cast(Recorder, records))
        finally:
            records.waited_s = asyncio.get_running_loop().time()

    run_virtual(timed())
    return records


def test_a_server_that_lacks_a_class_is_told_at_once_although_it_lives(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"INFO starting\n{LACKS}INFO going on\n")
    records = Records()
    with pytest.raises(
        NodeNotReady, match=r"b1 will never be ready: a class is missing: .*NoClassDefFoundError: x/Y"
    ) as caught:
        wait(log, ready_after=1_000_000, records=records)
    assert 0 <= records.waited_s < 0.1
    assert "choose another release" in (caught.value.hint or "")


def test_a_server_that_ended_is_told_with_the_end_of_its_log_and_where_to_look(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO starting\nERROR no such option\n")
    with pytest.raises(NodeNotReady, match=r"(?s)b1 ended before it was ready.*ERROR no such option") as caught:
        wait(log, ready_after=1_000_000, state=NodeState.DEAD)
    assert caught.value.hint is not None
    assert "--version" in caught.value.hint
    assert str(log) in caught.value.hint


def test_a_server_that_is_late_is_told_with_its_deadline(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO waiting for the quorum\n")
    records = Records()
    with pytest.raises(NodeNotReady, match=r"(?s)b1 is not ready after 5 s.*waiting for the quorum") as caught:
        wait(log, ready_after=1_000_000, records=records)
    assert DEADLINE_S <= records.waited_s < DEADLINE_S + 0.1
    assert "too busy" in (caught.value.hint or "")


def test_what_an_earlier_process_wrote_is_not_held_against_this_one(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LACKS)
    assert len(wait(log, ready_after=3, incarnation=1).changes) == 1


def test_a_server_that_ended_is_told_at_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO bye\n")
    records = Records()
    with pytest.raises(NodeNotReady, match="ended before it was ready"):
        wait(log, ready_after=1_000_000, state=NodeState.DEAD, records=records)
    assert 0 <= records.waited_s < 0.1


def test_a_server_without_a_log_yet_becomes_ready(tmp_path: Path) -> None:
    assert len(wait(tmp_path / "none", ready_after=2).changes) == 1


def test_a_server_that_ended_during_the_start_is_told_with_its_status_and_log() -> None:
    """Where links are probed first, it would look like links that stay shut."""
    lived = FakeNode("n1")
    died = Logging("n2", state=NodeState.DEAD, last_exit=Exit("n2", 0, 3, expected=False))
    refuse_dead([lived])
    with pytest.raises(NodeNotReady) as raised:
        refuse_dead([lived, died])
    assert raised.value.message == (
        "n2 ended by itself with exit status 3 before it was ready; the end of its log:\nfatal: licence expired"
    )


@pytest.mark.parametrize(
    ("exit_", "death"),
    [
        (Exit("n1", 0, -9, expected=False), "n1 was ended by SIGKILL, not by the harness (out of memory?)"),
        (Exit("n1", 0, -9, expected=True), "None"),
        (Exit("n1", 4, 1, expected=False), "None"),  # of an earlier process
        (None, "None"),
    ],
)
def test_only_what_nobody_of_ours_ended_is_a_death(exit_: Exit | None, death: str) -> None:
    assert str(death_of(FakeNode("n1", state=NodeState.DEAD, last_exit=exit_))) == death
    assert death_of(FakeNode("n1", last_exit=exit_)) is None
