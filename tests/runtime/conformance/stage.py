"""A cluster in a process of its own, as in a run, on which scenarios are played one after the other.

    with Stage.open("containers", folder) as stage:
        stage.play("tests.runtime.conformance.servers:kill")        # raises AssertionError with what was raised inside

The child enters the lab where that is the runtime, opens the cluster as the runner does, and makes it whole again
after every scenario. It is the owner of what it makes, so that its death makes that an orphan's.
"""

import asyncio
import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.runtime.linux import supervisor
from tests.lab_scenario import ROOT, require_lab
from tests.runtime.conformance.kinds import KINDS
from tests.runtime.containers.links_scene import engine

#: Returned by a scenario after which the cluster is not to be made whole again.
STAY: Final = "stay"
#: Images may have to be built first, by a Go compiler among others.
_OPEN_DEADLINE_S: Final = 240.0
_PLAY_DEADLINE_S: Final = 90.0


class Stage:
    """The parent's side."""

    def __init__(self, process: "subprocess.Popen[bytes]", talk: socket.socket, kind: str, folder: Path) -> None:
        self.process, self.kind, self.folder = process, kind, folder
        self._talk = talk
        self._reader = talk.makefile("r", encoding="utf-8")

    @classmethod
    @contextlib.contextmanager
    def open(cls, kind: str, folder: Path, *, nodes: int = 3, data_limit_bytes: int = 0) -> Iterator["Stage"]:
        """A healthy cluster of this kind; closed at the end, when the child must be gone.

        `data_limit_bytes` is a limit other than etcd's own, which is enforced then.
        """
        from fencepost.harness.plugins import registry

        require(kind)
        placement = replace(KINDS[kind].placement, nodes=nodes, limited_data=bool(data_limit_bytes))
        artifacts = registry.runtime(placement.runtime).resolve(
            registry.system("etcd").releases, "3.5.1", placement, lambda _: None
        )
        ours, theirs = socket.socketpair()
        asked = {
            "kind": kind,
            "folder": str(folder),
            "fd": theirs.fileno(),
            "changes": {"data_limit_bytes": data_limit_bytes} if data_limit_bytes else {},
            "placement": {
                "runtime": placement.runtime,
                "nodes": placement.nodes,
                "streams": placement.streams,
                "limited_data": placement.limited_data,
            },
            "artifacts": msgspec.to_builtins(artifacts),
        }
        with (folder / "stage.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.runtime.conformance.stage", json.dumps(asked)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, supervisor.PARENT_VARIABLE: str(os.getpid())} if kind == "lab" else None,
            )
        theirs.close()
        stage = cls(process, ours, kind, folder)
        try:
            stage._hear(_OPEN_DEADLINE_S)
            yield stage
            stage.close()
        finally:
            stage.kill()

    def play(self, scenario: str, **args: Any) -> Any:
        """Call `module:function` with the cluster and `args`; gives back what it returns."""
        return self._ask({"scenario": scenario, "args": args})

    def close(self) -> None:
        """Close the cluster and wait until the child has ended. Idempotent."""
        if self.process.poll() is None:
            self._ask({})
            assert self.process.wait(40.0) == 0, self._log()

    def kill(self) -> None:
        """As a harness that is killed with -9."""
        self.process.kill()
        self.process.wait(40.0)
        self._reader.close()
        self._talk.close()

    def _ask(self, question: dict[str, Any]) -> Any:
        self._talk.sendall(json.dumps(question).encode() + b"\n")
        return self._hear(_PLAY_DEADLINE_S)

    def _hear(self, deadline_s: float) -> Any:
        self._talk.settimeout(deadline_s)
        line = self._reader.readline()
        assert line, f"the stage ended\n{self._log()}"
        answer = json.loads(line)
        assert "error" not in answer, f"{answer['error']}\n{self._log()}"
        return answer["result"]

    def _log(self) -> str:
        return (self.folder / "stage.log").read_text(errors="replace")[-4000:]


def require(kind: str) -> None:
    """Skip the calling test, with reason and remedy, where this machine lacks what the kind needs."""
    if not KINDS[kind].needs_engine:
        require_lab()
        return
    engine().close()


# -- in the child -------------------------------------------------------------------------------------------------


async def _serve(asked: dict[str, Any]) -> None:
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=asked["fd"]))

    def tell(**answer: Any) -> None:
        writer.write(json.dumps(answer).encode() + b"\n")

    from tests.runtime.conformance.cluster import Cluster

    runtime: Any = None
    try:
        began = time.monotonic()
        runtime, artifacts = await _open(asked)
        cluster = Cluster(asked["kind"], runtime, artifacts, Path(asked["folder"]))
        await cluster.start(**asked["changes"])
        tell(result=time.monotonic() - began)
        while line := await reader.readline():
            question = json.loads(line)
            if not question:
                break
            try:
                module, _, name = question["scenario"].partition(":")
                result = await getattr(importlib.import_module(module), name)(cluster, **question["args"])
                if result != STAY:
                    await cluster.restore()
                tell(result=result)
            except Exception:
                error = traceback.format_exc()
                # The next scenario is not to fail for this one's reason.
                with contextlib.suppress(Exception):
                    await cluster.restore()
                tell(error=error)
        await runtime.close()
        await runtime.close()
        tell(result=None)
    except BaseException:
        tell(error=traceback.format_exc())
        if runtime is not None:
            await runtime.close()
        raise
    finally:
        writer.close()
        await writer.wait_closed()


async def _open(asked: dict[str, Any]) -> Any:
    from fencepost.harness.plugins import registry
    from fencepost.harness.runtime.artifacts import Artifacts
    from fencepost.harness.runtime.containers.cluster import Containers
    from fencepost.harness.runtime.containers.engine import engine as engines
    from fencepost.harness.runtime.provider import Placement

    placement = Placement(**asked["placement"])
    artifacts = msgspec.convert(asked["artifacts"], Artifacts)
    folder, listeners = Path(asked["folder"]), registry.system("etcd").profile.listeners
    if KINDS[asked["kind"]].published:
        client = await asyncio.to_thread(engines.connect)
        facts = replace(await asyncio.to_thread(engines.facts, client), reachable=False)
        image = artifacts.paths["image"]
        return await Containers.open(client, facts, folder, placement, listeners, image), artifacts
    return await registry.runtime(placement.runtime).open(folder, placement, listeners, artifacts), artifacts


def main() -> None:
    asked = json.loads(sys.argv[1])
    if asked["kind"] == "lab":
        supervisor.enter()
    from fencepost.harness.interpreter.interpreter import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(asked))


if __name__ == "__main__":
    main()
