"""What is still there of a cluster after its end, found without asking the runtime itself."""

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tests.runtime.conformance.kinds import KINDS
from tests.runtime.conformance.stage import Stage


def run_id(stage: Stage) -> str:
    """Of containers; empty for the lab, which leaves nothing that would need a name."""
    if not KINDS[stage.kind].needs_engine:
        return ""
    run = str(json.loads((stage.folder / "engine.json").read_text())["run"])
    assert _on_engine(run), "things of a run carry its id in their names"
    return run


def left(folder: Path, run: str, deadline_s: float = 30.0) -> list[str]:
    """Processes and mounts that name its folder, things of the engine that name its run; the dying get a moment."""
    end = time.monotonic() + deadline_s
    while (found := _found(folder, run)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _found(folder: Path, run: str) -> list[str]:
    found = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in said or str(folder) in os.readlink(process / "cwd"):
                found.append(said)
    return found + (_on_engine(run) if run else [])


def _on_engine(run: str) -> list[str]:
    from fencepost.harness.runtime.containers.engine.engine import connect

    client = connect()
    try:
        things: list[Any] = [
            *client.containers.list(all=True, ignore_removed=True),
            *client.networks.list(),
            *client.volumes.list(),
        ]
    finally:
        client.close()
    return [f"{type(thing).__name__.lower()} {thing.name}" for thing in things if run in (thing.name or "")]
