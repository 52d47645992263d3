"""Run a test's coroutine inside a fresh lab, from a pytest process that must not enter namespaces itself.

    def test_reach() -> None:
        assert run_scenario("tests.runtime.lab.scenarios:reach", {"port": 5000}, nodes=3, timeout_s=20) == {...}

    async def reach(lab: Lab, args: dict[str, Any]) -> Any:     # runs inside, as the harness does; returns JSON
        ...

The scenario runs in a child (`python -m tests.lab_scenario`) that enters the lab as the runner does. Its return value
comes back as JSON; an exception in it becomes an AssertionError that carries its traceback and what it printed. At
the deadline the child is killed, and the kernel removes everything inside. The lab is closed after the scenario in
any case.

Where the machine refuses a lab the calling test is skipped with the reason and the remedy, but fails where `CI` is set.
"""

import asyncio
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.linux import supervisor
from fencepost.harness.runtime.node import Member

ROOT = Path(__file__).resolve().parent.parent


class User(NamedTuple):
    """An ordinary account to run a scenario as: its id, a Python that it may execute, a tree that it may read."""

    uid: int
    python: str
    tree: Path


def run_scenario(
    function: str,
    args: dict[str, Any] | None = None,
    *,
    nodes: int | Sequence[Member] = 3,
    timeout_s: float = 60.0,
    folder: Path | None = None,
    user: User | None = None,
    uvloop: bool = False,
) -> Any:
    """Call `module:function` with an open lab of these nodes and `args`; give back what it returns.

    A number of `nodes` means n1, n2, ... `folder` is the run's, a temporary one when None; it is given to `user`.
    asyncio's own loop unless `uvloop`.
    """
    require_lab()
    if folder is None:
        # Kept short and away from pytest's own folders, which are closed to other users.
        folder = Path(tempfile.mkdtemp(prefix="fencepost-scenario-"))
        try:
            return run_scenario(
                function, args, nodes=nodes, timeout_s=timeout_s, folder=folder, user=user, uvloop=uvloop
            )
        finally:
            shutil.rmtree(folder)
    if user is not None:
        os.chown(folder, user.uid, user.uid)
    process = start_scenario(function, args, nodes=nodes, folder=folder, user=user, uvloop=uvloop)
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"{function} did not end within {timeout_s:g} s\n{output}") from None
    result = folder / "result.json"
    if process.returncode != 0 or not result.exists():
        raise AssertionError(f"{function} ended with {process.returncode}\n{output}")
    return json.loads(result.read_text())


def start_scenario(
    function: str,
    args: dict[str, Any] | None,
    *,
    nodes: int | Sequence[Member],
    folder: Path,
    user: User | None = None,
    uvloop: bool = False,
) -> "subprocess.Popen[str]":
    """Start a scenario without waiting for it; stdout and stderr come together. For tests that kill it."""
    cluster = nodes if isinstance(nodes, int) else [[m.name, m.roles, m.votes] for m in nodes]
    asked = {"function": function, "args": args or {}, "nodes": cluster, "folder": str(folder), "uvloop": uvloop}
    environment = {**os.environ, supervisor.PARENT_VARIABLE: str(os.getpid())}
    if user is not None:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.Popen(
        [user.python if user is not None else sys.executable, "-m", "tests.lab_scenario", json.dumps(asked)],
        cwd=user.tree if user is not None else ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        user=user.uid if user is not None else None,
        group=user.uid if user is not None else None,
        extra_groups=[] if user is not None else None,
    )


@cache
def _why_no_lab() -> str | None:
    from fencepost.harness.runtime.lab.provider import lab_checks

    for check in lab_checks():
        if not check.ok:
            return f"{check.name}: {check.why}; remedy: {check.remedy}"
    return None


def require_lab() -> None:
    """Skip the calling test where this machine has no lab; fail it under CI."""
    refuse(_why_no_lab())


def refuse(reason: Refusal | str | None) -> None:
    """Skip the calling test with `reason`, when there is one; under CI a missing capability is a failure."""
    import pytest

    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"missing under CI: {reason}")
    pytest.skip(str(reason))


async def _run(request: dict[str, Any]) -> Any:
    from fencepost.harness.runtime.lab.lab import Lab

    module, _, name = request["function"].partition(":")
    scenario = getattr(importlib.import_module(module), name)
    nodes = request["nodes"]
    cluster = nodes if isinstance(nodes, int) else [Member(name, tuple(roles), votes) for name, roles, votes in nodes]
    lab = await Lab.open(Path(request["folder"]), cluster)
    try:
        return await scenario(lab, request["args"])
    finally:
        await lab.close()


def _loop_factory(request: dict[str, Any]) -> "Callable[[], asyncio.AbstractEventLoop] | None":
    if not request["uvloop"]:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def main() -> None:
    supervisor.enter()
    request = json.loads(sys.argv[1])
    try:
        with asyncio.Runner(loop_factory=_loop_factory(request)) as runner:
            result = runner.run(_run(request))
    except Exception:
        traceback.print_exc()
        raise SystemExit(1) from None
    (Path(request["folder"]) / "result.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main()
