"""The process of one cell: `python -m systems.kafka.failover.child <cell's folder>`, which holds cell.json.

It enters new namespaces before anything heavy is imported, as the runner of a run does, so that every server dies with
it. It prints one line of JSON on stdout for each sample. SIGTERM ends it and the cluster.
"""

import asyncio
import json
import signal
import sys
import time
import traceback
from pathlib import Path

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.runtime.linux import supervisor

CELL = "cell.json"


def main(arguments: list[str]) -> int:
    """Measure, inside the lab; returns the process's exit status."""
    from fencepost.harness.base.event_loop import new_event_loop

    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_measure(Path(arguments[0])))
    except FencepostError as error:
        return _refuse(error)
    except asyncio.CancelledError:
        return 0
    except Exception as error:
        traceback.print_exc()
        _tell("error", message=f"{type(error).__name__}: {error}", hint=None, exit_code=255)
        return 255
    _tell("done")
    return 0


async def _measure(folder: Path) -> None:
    from contextlib import AsyncExitStack

    import msgspec

    from fencepost.systems.kafka.failover.cell import ENDS, FailoverCell
    from fencepost.systems.kafka.failover.cluster import open_cluster
    from fencepost.systems.kafka.failover.measurable import failover_of
    from fencepost.systems.kafka.failover.measure import measure
    from fencepost.systems.kafka.failover.migrating import migrations

    cell = msgspec.json.decode((folder / CELL).read_bytes(), type=FailoverCell)
    ends = time.monotonic() + cell.budget_s
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    if failover_of(cell.system).migrates:
        async for sample in migrations(cell, folder, ends):
            _tell("sample", sample=msgspec.to_builtins(sample))
        return
    async with AsyncExitStack() as stack:
        cluster = await open_cluster(cell, folder, stack)
        took_s = 0.0
        # Alternate, so that a cell that runs out of time has samples of both endings.
        for number in range(cell.times):
            for ending in ENDS:
                began = time.monotonic()
                if began + took_s > ends:
                    return
                sample = await measure(cluster, ending, f"probe-{number}-{ending}")
                took_s = time.monotonic() - began
                _tell("sample", sample=msgspec.to_builtins(sample), took_s=took_s)


def _tell(topic: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"topic": topic, **fields}) + "\n")
    sys.stdout.flush()


def _refuse(error: FencepostError) -> int:
    _tell("error", message=error.message, hint=error.hint, exit_code=int(error.exit_code))
    return int(error.exit_code)


if __name__ == "__main__":
    raise SystemExit(supervisor.inside(sys.argv[1:], main))
