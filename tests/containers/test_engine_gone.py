"""An engine that goes away, or hangs, in the middle of a run: told within seconds, never a hang, and what is left."""

import asyncio
import contextlib
import gc
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from harness.errors import HarnessError
from harness.runtime import engine_events, ownership
from harness.runtime.containers import CONTAINERS
from harness.runtime.engine import EngineFacts
from tests.containers.cluster_scene import cluster, spec

# The SDK leaves the sockets of requests that got no answer to the garbage collector.
pytestmark = [pytest.mark.containers, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


class Between:
    """A socket of ours in front of the engine's: it can die, or fall silent, without anybody else being hurt."""

    def __init__(self, path: Path, behind: str) -> None:
        self.path, self._behind = path, behind
        self._silent = threading.Event()
        self._opened: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._behind)
                self._opened += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if self._silent.is_set():
                    return
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def fall_silent(self) -> None:
        self._silent.set()

    def die(self) -> None:
        for one in (self._listening, *self._opened):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self._opened.clear()
        self.path.unlink(missing_ok=True)


@pytest.fixture
def between(tmp_path: Path, facts: EngineFacts) -> Iterator[Between]:
    if not facts.address.startswith("unix://"):
        pytest.skip("this engine has no unix socket")
    made = Between(tmp_path / "s", facts.address.removeprefix("unix://"))
    yield made
    made.die()


@pytest.mark.parametrize("how", ["die", "fall_silent"])
def test_engine_goes_away(
    tmp_path: Path, engine: DockerClient, between: Between, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_events, "_LOOK_TIMEOUT_S", 1.0)
    run_id = ""

    async def run() -> None:
        nonlocal run_id
        async with cluster(tmp_path, address=f"unix://{between.path}") as it:
            run_id = it.run_id
            await it.realise([spec("n1")])
            await it.nodes["n1"].start()
            getattr(between, how)()
            for _ in range(2):  # now, and for ever
                with pytest.raises(HarnessError, match="the container engine stopped answering") as told:
                    await asyncio.wait_for(it.next_exit(), 10.0)
                assert "fencepost doctor --sweep" in (told.value.hint or "")
            with pytest.raises(HarnessError, match="the container engine stopped answering"):
                await asyncio.wait_for(it.nodes["n1"].kill(), 1.0)

    began = time.monotonic()
    try:
        with pytest.raises(HarnessError, match="is still there") as left:
            asyncio.run(run())
        assert f"docker ps -aq --filter label=org.fencepost.run={run_id}" in (left.value.hint or "")
        assert time.monotonic() - began < 30
        # The note names an engine that is gone: the run's own sweep says so, and hangs neither.
        if how == "die":
            (said,) = CONTAINERS.sweep(tmp_path)
            assert "there is no container engine at" in said
            assert run_id in said
    finally:
        assert ownership.sweep(engine, run_id, late=True) == []
        gc.collect()
