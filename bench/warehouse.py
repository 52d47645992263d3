"""The warehouse of many runs: all of them judged again, and the pages over all nights, with one core and with two.

The runs are copies of those below SOURCES= (a folder of stored runs), or of one run of the example system under cuts,
which is made first. A copy has an id of its own, lies in one of 14 nights, and shares its history's file with the run
that it was copied from. RUNS= says how many there are; more than 1,000 are judged with two cores only. LENGTH= is the
length of the run that is made.

`python -m bench.warehouse RESULTS WAREHOUSE MASTER PROCESSORS` is one build with its pages, and prints its figures as
JSON. It is also how another Spark is measured, such as a standalone master with two workers.
"""

import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.figure import Figure
from bench.spark_checks import bind, pids_below, stat_of
from fencepost.harness.results import run_folder as store
from fencepost.warehouse.adding import build
from fencepost.warehouse.index import write_index
from fencepost.warehouse.pages.collect import overview
from fencepost.warehouse.pages.site import write_pages
from fencepost.warehouse.query import query
from fencepost.warehouse.spark_session import SparkHandle
from fencepost.warehouse.warehouse import Warehouse

ROOT: Final = Path(__file__).resolve().parents[1]
_RUNS: Final = 200
#: Up to so many runs are judged with one core too.
_ON_ONE_CORE_MAX: Final = 1_000
_NIGHTS: Final = 14
_SHARED: Final = (store.HISTORY, store.PLAN, store.SCHEDULE, store.VERDICT)
_SAMPLE_S: Final = 1.0
_HARNESS: Final = "fencepost.harness.cli"


def run() -> list[Figure]:
    """Measure once: a build takes minutes, and judges thousands of runs."""
    number = int(os.environ.get("RUNS", _RUNS))
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-", dir=os.environ.get("SCRATCH")) as scratch:
        results = Path(scratch) / "results"
        copy_runs(_sources(Path(scratch)), number, results)
        measured = {
            cores: _child(results, Path(scratch) / f"warehouse-{cores}", cores)
            for cores in ((1, 2) if number <= _ON_ONE_CORE_MAX else (2,))
        }
    two = measured[2]
    of, note = f"{number:,} runs of {two['operations'] / number:,.0f} operations", f"load {os.getloadavg()[0]:.0f}"
    millions = two["operations"] / 1e6
    figures = [
        Figure(f"{of}: judged again", two["build_s"], "s", "120 s for 1,000 of 5,000", f"two cores; {note}"),
        Figure(f"{of}: processor time of 10^6 operations", two["build_cpu_s"] / millions, "s", "as measured", note),
        Figure(f"{of}: pages over all nights", two["pages_s"], "s", "as measured", f"two cores; {note}"),
        Figure(f"{of}: one query", two["query_s"], "s", "as measured", f"in a session that is there; {note}"),
        Figure(f"{of}: processor time of the pages", two["pages_cpu_s"], "s", "as measured", note),
        Figure(f"{of}: peak memory", two["peak_mb"], "MB", "<= 4096 MB", "JVM and Pythons, shared memory once"),
        Figure(f"{of}: files of the warehouse", two["files"], "", "as measured", f"{two['bytes'] / 1e6:.0f} MB"),
    ]
    if 1 in measured:
        efficiency = measured[1]["build_s"] / two["build_s"] / 2
        clock = f"{measured[1]['build_s']:.0f} s with one core, {two['build_s']:.0f} s with two; {note}"
        figures.append(Figure(f"{of}: efficiency of the second core", efficiency, "", ">= 0.8", clock))
    return figures


def _sources(scratch: Path) -> list[Path]:
    given = os.environ.get("SOURCES")
    place = scratch / "made" if given is None else Path(given)
    if given is None:
        plan = ["--system", "example", "--workload", "register", "--nemesis", "partition:leader", "--seed", "1"]
        length = ["--time-limit", os.environ.get("LENGTH", "30s"), "--results", str(place)]
        subprocess.run([sys.executable, "-m", _HARNESS, "run", *plan, *length], cwd=ROOT, timeout=600, check=False)
    return sorted(path.parent for path in place.rglob(store.HISTORY))


def copy_runs(sources: Sequence[Path], number: int, results: Path) -> None:
    """Make `number` runs below `results`, of each source in turn; their large files are hard links."""
    first = datetime.datetime(2026, 11, 1, tzinfo=datetime.UTC)
    for i in range(number):
        source, folder = sources[i % len(sources)], results / f"{i % _NIGHTS:02d}" / f"{i:07d}"
        folder.mkdir(parents=True)
        for name in _SHARED:
            if (source / name).is_file():
                link_or_copy(source / name, folder / name)
        started = first + datetime.timedelta(days=i % _NIGHTS, seconds=i)
        own = {"run_id": uuid.UUID(int=i).hex, "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}"}
        store.write_json(folder / store.RUN, {**store.read_json(source / store.RUN), **own})


def link_or_copy(source: Path, target: Path) -> None:
    """Make a hard link, or a copy where the file system has no more links for the file."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


def _child(results: Path, warehouse: Path, cores: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.warehouse", str(results), str(warehouse), f"local[{cores}]", str(cores)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def measure(results: Path, root: Path, master: str) -> dict[str, float]:
    """Build a warehouse with its index and its pages; seconds are of the clock, `cpu_s` of processors."""
    with SparkHandle(master) as handle:
        spark = handle.session()
        with _Watch() as watch:
            built = watch.timed("build", lambda: build(spark, [results], str(root)))
            warehouse = Warehouse(spark, str(root))
            watch.timed("index", lambda: write_index(warehouse, root.with_name(f"{root.name}.html")))
            watch.timed("pages", lambda: _pages(warehouse, root.with_name(f"{root.name}-pages")))
            count = "select sum(operations) as n from run"
            operations = int(watch.timed("query", lambda: query(root, count, spark=spark))["n"][0])
    files = [path for path in root.rglob("*") if path.is_file()]
    sizes = {"files": len(files), "bytes": sum(path.stat().st_size for path in files)}
    return {**watch.figures, "runs": built.runs, "failed": built.failed, "operations": operations, **sizes}


def _pages(warehouse: Warehouse, out: Path) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    write_pages(overview(warehouse, out, (), shown=_NIGHTS, today=today), out)


class _Watch:
    """The processor time and the peak memory of this process and of those below it: the JVM and its Python workers."""

    def __init__(self) -> None:
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._sample, daemon=True)
        self.figures: Final[dict[str, float]] = {"peak_mb": 0.0}

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work, and note what it took as `<name>_s` and `<name>_cpu_s`."""
        began, spent = time.perf_counter(), self._cpu_s()
        result = work()
        self.figures[f"{name}_s"] = time.perf_counter() - began
        self.figures[f"{name}_cpu_s"] = self._cpu_s() - spent
        return result

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            peak_mb = sum(map(_pss_mb, self._pids()))
            self.figures["peak_mb"] = max(self.figures["peak_mb"], peak_mb)

    def _cpu_s(self) -> float:
        # With the children that have ended and were waited for.
        ticks = [sum(int(field) for field in stat_of(pid)[11:15]) for pid in self._pids()]
        return sum(ticks) / os.sysconf("SC_CLK_TCK")

    def _pids(self) -> list[int]:
        return [os.getpid(), *pids_below()]


def _pss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    bind(int(sys.argv[4]))
    print(json.dumps(measure(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute(), sys.argv[3])))
