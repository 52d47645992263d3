"""Figures of the containers runtime: from a run to its first write, and the building of all images."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import Figure
from bench.toxiproxy import engine_answers
from fencepost.harness.history import Outcome
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.reader import read_history

_IMAGES = ("java", "python", "etcd", "zookeeper", "kraft", "kafka-zk", "toxiproxy", "sidecar")


def run(repeats: int = 5) -> list[Figure]:
    """Measure the figures; none if no container engine answers."""
    if not engine_answers():
        print("  no container engine answers: nothing measured; start one, or set DOCKER_HOST", flush=True)
        return []
    return [
        *(
            first_write(system, "register", "write", target, repeats)
            for system, target in (("etcd", 5), ("zookeeper", 6))
        ),
        images("all images", _IMAGES, cold=False),
        images("all images", _IMAGES, cold=True),
    ]


def first_write(system: str, workload: str, f: str, target_s: int, repeats: int, who: str = "three nodes") -> Figure:
    """Return the seconds from the command to the first acknowledged operation `f` of the workload."""
    load = os.getloadavg()[0]
    times = sorted(_start_to_write(system, workload, f) for _ in range(repeats))
    return Figure(
        f"{system} on containers, from `run` to the first acknowledged write",
        statistics.median(times),
        "s",
        f"at most {target_s} s",
        f"{who}, links by rules, interpreter start included; {times[0]:.2f} to {times[-1]:.2f} s in {repeats};"
        f" load {load:.1f}",
    )


def _start_to_write(system: str, workload: str, f: str) -> float:
    with TemporaryDirectory(prefix="fencepost-bench-") as folder:
        began = time.time()
        subprocess.run(
            [
                *(sys.executable, "-m", "fencepost.harness.cli", "run", "--runtime", "containers", "--system", system),
                *("--workload", workload, "--nemesis", "none", "--time-limit", "1s"),
                *("--results", folder, "--seed", "1"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=180,
            check=False,
        )
        (run_folder,) = [path.parent for path in Path(folder).glob(f"*/*/{store.RUN}")]
        zero_s = store.read_json(run_folder / store.RUN)["zero"]["wall_clock_s"]
        operations = read_history(run_folder).operations
        done = [one for one in operations if one.type is Outcome.OK and one.f == f]
        first_ns = min(one.completed_ns for one in done if one.completed_ns is not None)
        return float(zero_s + first_ns / 1e9 - began)


def images(what: str, names: Sequence[str], *, cold: bool) -> Figure:
    """Build these images, none of which the engine has; `cold`: with our own, Go's and Maven's caches empty too."""
    from fencepost.harness.runtime.containers.engine.engine import connect

    client = connect()
    try:
        for name in names:
            for image in client.images.list(filters={"label": f"org.fencepost.image={name}"}):
                client.images.remove(str(image.id), force=True)
    finally:
        client.close()
    with TemporaryDirectory(prefix="fencepost-bench-") as folder:
        environment = dict(os.environ)
        if cold:
            environment |= {"XDG_CACHE_HOME": folder, "GOMODCACHE": f"{folder}/mod", "GOFLAGS": "-modcacherw"}
            environment |= {"GOCACHE": f"{folder}/go", "MAVEN_OPTS": f"-Dmaven.repo.local={folder}/m2"}
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "fencepost.harness.cli", "images", "build", *names],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=600,
            check=True,
        )
        length_s = time.monotonic() - began
    caches = "every cache empty, Go's and Maven's too" if cold else "downloads and Go's builds cached"
    return Figure(
        f"{what}, {'everything fetched' if cold else 'parts at hand'}",
        length_s,
        "s",
        "at most 90 s" if cold else "-",
        f"{len(names)} images, none on the engine before; {caches}",
    )
