"""`make soak-kills`: runs on containers whose harness is killed at a random moment; afterwards nothing may be left.

Each run is killed with SIGKILL after a drawn delay: the outer process, its runner, or both at once. Whoever survives
removes what was made; what nobody removes is found by the next start, since every thing carries the label of its owner.
After the last one, `fencepost doctor --sweep` is called once, and the engine is asked for anything of ours.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.document import write_table

TIMES: Final = 50
SEED: Final = 4711
#: From before the first container to after the last phase.
_LONGEST_S: Final = 14.0
_END_TIMEOUT_S: Final = 90.0
_COMMAND: Final = "run --runtime containers --system etcd --workload register --quiet 1s --time-limit 6s --seed 1"


def left_behind() -> list[str]:
    """Containers, networks and volumes of runs whose owner is gone, by name; other people's runs are none of ours."""
    from fencepost.harness.runtime.containers.engine.engine import connect
    from fencepost.harness.runtime.containers.engine.ownership import OWNER_LABEL, RUN_LABEL, is_dead

    client = connect()
    try:
        by_label = {"label": RUN_LABEL}
        # The low-level lists: the others look at each container again, which may be gone by then.
        found = [
            *(
                ("container", one["Names"][0], one["Labels"])
                for one in client.api.containers(all=True, filters=by_label)
            ),
            *(("network", one["Name"], one["Labels"]) for one in client.api.networks(filters=by_label)),
            *(("volume", one["Name"], one["Labels"]) for one in client.api.volumes(filters=by_label)["Volumes"] or ()),
        ]
        return [f"{kind} {name}" for kind, name, labels in found if is_dead(labels.get(OWNER_LABEL, ""))]
    finally:
        client.close()


def killed_run(results: Path, nemesis: str, draw: random.Random) -> str:
    """One run that is killed; says who was killed and when."""
    whom, delay_s = draw.choice(("command", "runner", "both")), draw.uniform(0.3, _LONGEST_S)
    command = [
        sys.executable,
        "-m",
        "fencepost.harness.cli",
        *_COMMAND.split(),
        "--nemesis",
        nemesis,
        "--results",
        str(results),
    ]
    started = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(delay_s)
    runner = next(iter(_children(started.pid)), None)
    victims: dict[str, list[int | None]] = {"command": [started.pid], "runner": [runner], "both": [started.pid, runner]}
    for victim in victims[whom]:
        if victim is not None:
            _kill(victim)
    started.wait(_END_TIMEOUT_S)
    if runner is not None:
        _await_end(runner)
    return f"{whom} after {delay_s:.1f} s"


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _await_end(pid: int) -> None:
    """A runner whose command is gone has no parent to wait for it."""
    deadline = time.monotonic() + _END_TIMEOUT_S
    while Path(f"/proc/{pid}/fd").exists() and _alive(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} is still there {_END_TIMEOUT_S:g} s after the kill")
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def main(times: int = TIMES) -> int:
    draw = random.Random(SEED)
    began = time.monotonic()
    before = left_behind()
    if before:
        print(f"left by something else before the first run: {', '.join(before)}", file=sys.stderr)
        return 255
    most = 0
    with TemporaryDirectory(prefix="fencepost-kills-") as folder:
        for number in range(times):
            nemesis = ("partition", "link", "toxic")[number % 3]
            what = killed_run(Path(folder), nemesis, draw)
            left = len(left_behind())
            most = max(most, left)
            print(f"{number + 1:2}/{times} {nemesis}: killed {what}: {left} things wait to be swept", flush=True)
        swept = subprocess.run([sys.executable, "-m", "fencepost.harness.cli", "doctor", "--sweep"], check=False)
    left_at_end = left_behind()
    seconds = time.monotonic() - began
    write_table(
        "soak-kills",
        [
            "| runs whose harness was killed at random | left at worst before the next start | left after the sweep |",
            "| --- | --- | --- |",
            f"| {times}, a third each by rules, side-car and Toxiproxy, seed {SEED} | {most} | {len(left_at_end)} |",
            "",
            f"Took {seconds / 60:.0f} minutes.",
        ],
    )
    for thing in left_at_end:
        print(f"left: {thing}", file=sys.stderr)
    return 1 if left_at_end or swept.returncode else 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else TIMES))
