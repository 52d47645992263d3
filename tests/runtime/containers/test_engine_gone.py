"""An engine that goes away, or hangs, in the middle of a run: told within seconds, never a hang, and what is left."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker import DockerClient

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.engine import events as engine_events
from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.engine.engine import EngineFacts
from fencepost.harness.runtime.containers.provider import CONTAINERS
from tests.runs.engine_relay import EngineRelay, relay
from tests.runtime.containers.cluster_scene import cluster, spec

# The SDK leaves the sockets of requests that got no answer to the garbage collector.
pytestmark = [pytest.mark.containers, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.fixture
def between(tmp_path: Path, facts: EngineFacts) -> Iterator[EngineRelay]:
    if not facts.address.startswith("unix://"):
        pytest.skip("this engine has no unix socket")
    with relay(tmp_path) as made:
        yield made


@pytest.mark.parametrize("how", ["cut", pytest.param("silence", marks=pytest.mark.slow)])
def test_engine_goes_away(
    tmp_path: Path, engine: DockerClient, between: EngineRelay, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = ""

    async def run() -> None:
        nonlocal run_id
        async with cluster(tmp_path, address=between.address) as it:
            run_id = it.run_id
            await it.realise([spec("n1")])
            await it.nodes["n1"].start()
            # Not before: an engine that is only busy needs longer now and then.
            monkeypatch.setattr(engine_events, "_LOOK_TIMEOUT_S", 1.0)
            getattr(between, how)()
            for _ in range(2):  # now, and for ever
                with pytest.raises(HarnessError, match="the container engine stopped answering") as told:
                    await asyncio.wait_for(it.next_exit(), 60.0)
                assert "fencepost doctor --sweep" in (told.value.hint or "")
            with pytest.raises(HarnessError, match="the container engine stopped answering"):
                await asyncio.wait_for(it.nodes["n1"].kill(), 1.0)

    # A wait without a deadline has no end here: the time that every test has ends it.
    try:
        with pytest.raises(HarnessError, match="could be removed") as left:
            asyncio.run(run())
        assert f"docker ps -aq --filter label=org.fencepost.run={run_id}" in (left.value.hint or "")
        # The note names an engine that is gone: the run's own sweep says so, and hangs neither.
        if how == "cut":
            (said,) = CONTAINERS.sweep(tmp_path)
            assert "there is no container engine at" in said
            assert run_id in said
    finally:
        assert ownership.sweep(engine, run_id, late=True) == []
        gc.collect()
