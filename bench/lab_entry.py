"""How long it takes to enter the lab: `python -m bench.lab_entry FOLDER`, as the runner does, and no more.

Nothing of asyncio or of the lab is imported before `enter()`; so their import is part of the figure.
"""

import sys
import time

from fencepost.harness.runtime.linux import supervisor


def main() -> None:
    begun_ns = time.monotonic_ns()
    supervisor.enter()
    import asyncio
    from pathlib import Path

    from fencepost.harness.runtime.lab.lab import Lab
    from fencepost.harness.runtime.links.rules_in_force import all_links
    from fencepost.harness.runtime.network import Reach

    async def open_and_probe() -> float:
        lab = await Lab.open(Path(sys.argv[1]), 3)
        answers = await lab.network.probe(all_links(lab.nodes))
        entered_s = (time.monotonic_ns() - begun_ns) / 1e9
        await lab.close()
        assert set(answers.values()) == {Reach.OPEN}
        return entered_s

    print(asyncio.run(open_and_probe()))


if __name__ == "__main__":
    main()
