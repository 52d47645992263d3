"""The steps of one stage of a migration, whoever carries them out: a fault of a run, or a measurement."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from fencepost.harness.runtime.node import Node, NodeSpec
from fencepost.systems.kafka.contract.migration import Migration, MigrationStage, Phase, ServerTurn

_POLL_S: Final = 0.05


async def carry_out(
    stage: MigrationStage,
    turns: Sequence[ServerTurn],
    *,
    serve: Callable[[], Awaitable[bool]],
    turn: Callable[[ServerTurn], Awaitable[object]],
) -> bool:
    """Turn these servers of a stage, one by one or together; return whether all were turned.

    Args:
        serve: waits until all servers serve; False: no further step is wanted. A stage that gives up the leadership
            by hand does not wait: its servers leave it.
        turn: ends one server and starts it as what it becomes.
    """
    if stage.together:
        if not stage.releases and not await serve():
            return False
        await asyncio.gather(*map(turn, turns))
        return True
    for one in turns:
        if not await serve():
            return False
        await turn(one)
    return True


async def give_next_spec(node: Node, turn: ServerTurn, migration: Migration, *, first: bool) -> NodeSpec:
    """Make this server start as what it becomes from now on; `first`: on an empty disk."""
    spec = await migration.spec(turn, first=first)
    node.respec(spec)
    if first and spec.data_files:
        await node.wipe()
    return spec


async def wait_for_phase(
    migration: Migration, phase: Phase, *, within_s: float, ask_s: float, hurried: Callable[[], bool] = lambda: False
) -> str | None:
    """Wait until this phase holds; return None, or what is missing when the time is over or somebody hurries."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + within_s
    missing: str | None = "not asked yet"
    while loop.time() < ends_s and not hurried():
        try:
            async with asyncio.timeout(ask_s):
                missing = await migration.lacks(phase)
        except Exception as error:
            missing = str(error) or type(error).__name__
        if missing is None:
            break
        await asyncio.sleep(_POLL_S)
    return missing
