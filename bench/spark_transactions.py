"""Transactions through Spark: from Parquet to the verdict, beside one native core on the same file.

Lists under moderate contention (`generate`). Every repetition is a process of its own, and one after the other. A Spark
process judges twice and the second time counts, when its code is compiled; the first is told beside it. TRANSACTIONS=
in the environment names another size than a million, ANOMALIES= how many anomalies it has.

`python -m bench.spark_transactions PATH native|local[N]` is one of them and prints its seconds as JSON.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq

from bench.figure import Figure, peak_mb
from bench.spark_checks import bind, cpu_s_of
from fencepost.checkers.tables import transactions_file
from fencepost.checkers.tables.transactions import arrow_table, schema
from fencepost.checkers.transactions.anomalies import STRICT
from fencepost.checkers.transactions.columns import INFO, OK, READ, READ_UNKNOWN, WRITE, TransactionColumns
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.warehouse.spark_session import FULLY_COMPILED, SparkHandle

TRANSACTIONS: Final = 1_000_000
_ENGINES: Final = ("native", "local[1]", "local[2]")
#: What a child may take at most: some start, and so many seconds for each million transactions.
_CHILD_S: Final = (120.0, 600.0)
_CLIENTS: Final = 20
_OPS: Final = 4
#: Keys that are used at a time, and by how many transactions: about 60 appends each.
_KEYS: Final = 100
_BLOCK: Final = 3_000
_STEP: Final = 1_000
#: Steps by which a transaction begins before its effect, and ends after it, at most: half of what its client has.
_SPREAD: Final = _CLIENTS // 2


def generate(path: Path, transactions: int, *, anomalies: int = 0, seed: int = 1) -> None:
    """Lists under strict serializability, as a table in the order of effect; a hundredth of unknown outcome.

    The clients take turns. Each transaction lasts from some moments before its effect to some after, so that most
    overlap others, but none of its own client. `anomalies`: so many reads lack the last element of their list.
    """
    rng = np.random.default_rng(seed)
    kinds = schema(lists=True)
    blocks = -(-transactions // _BLOCK)
    wrong = set(rng.choice(blocks, min(anomalies, blocks), replace=False).tolist())
    with pq.ParquetWriter(path, kinds, compression="zstd") as writer:
        for block in range(blocks):
            count = min(_BLOCK, transactions - block * _BLOCK)
            made = arrow_table(_block(rng, block, count, bend=block in wrong), lists=True)
            numbers = made.column("transaction").to_numpy() + block * _BLOCK
            writer.write_table(made.set_column(0, kinds.field("transaction"), [numbers]))


def _block(rng: np.random.Generator, block: int, count: int, *, bend: bool) -> TransactionColumns:
    ops = count * _OPS
    outcome = np.where(rng.random(count) < 0.01, INFO, OK)
    key = rng.integers(0, _KEYS, ops)
    append = rng.random(ops) < 0.5
    order = np.argsort(key, kind="stable")
    before = np.cumsum(append[order], dtype=np.int64) - append[order]
    first = np.searchsorted(key[order], key[order])
    held = np.zeros(ops, np.int64)
    # How many appends to its key come before each micro-operation.
    held[order] = before - before[first]
    answered = ~append & np.repeat(outcome == OK, _OPS)
    lengths = np.where(answered, held, 0)
    if bend:
        late = np.flatnonzero(lengths > 20)[-1]
        lengths[late] -= 1
    start = np.concatenate([[0], np.cumsum(lengths)])
    effect = (block * _BLOCK + np.arange(count) + _SPREAD) * _STEP
    return TransactionColumns(
        process=np.arange(count) % _CLIENTS,
        outcome=outcome,
        invoked=effect - rng.integers(1, (_SPREAD - 1) * _STEP, count),
        completed=effect + rng.integers(1, (_SPREAD - 1) * _STEP, count),
        first=_OPS * np.arange(count + 1),
        kind=np.where(append, WRITE, np.where(answered, READ, READ_UNKNOWN)),
        key=block * _KEYS + key,
        value=np.where(append, held + 1, 0),
        start=start,
        elements=np.arange(start[-1]) - np.repeat(start[:-1], lengths) + 1,
    )


def run(repeats: int = 3) -> list[Figure]:
    """Measure medians; more than a million transactions are measured once, since that takes long."""
    transactions = int(os.environ.get("TRANSACTIONS", TRANSACTIONS))
    anomalies = int(os.environ.get("ANOMALIES", "0"))
    repeats = repeats if transactions <= TRANSACTIONS else 1
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        path = Path(folder) / "table.parquet"
        generate(path, transactions, anomalies=anomalies)
        runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in _ENGINES}
        for _ in range(repeats):
            for engine in _ENGINES:
                runs[engine].append(_child(path, engine, transactions))
    of = f"list-append, {transactions:,} transactions"
    load = f"median of {repeats}; Parquet to verdict; load {os.getloadavg()[0]:.0f}"
    figures = []
    for engine in _ENGINES:
        note = f"{load}; {runs[engine][0]['verdict']}; CPU time {_median(runs[engine], 'cpu_s'):.0f} s"
        if engine != "native":
            note += f"; the first time, without the session, {_median(runs[engine], 'first_s'):.0f} s"
        name = "one native core" if engine == "native" else f"Spark, {engine}"
        figures.append(Figure(f"{of}: {name}", _median(runs[engine], "wall_s"), "s", "as measured", note))
    peak, spark = _median(runs["native"], "peak_mb"), runs[_ENGINES[-1]][0]
    left = f"of {spark['edges']:,} edges, after {spark['rounds']} rounds"
    figures.append(Figure(f"{of}: native peak memory", peak, "MB", "as measured", "what Spark spares one machine"))
    figures.append(Figure(f"{of}: edges that may lie on a cycle", spark["core_edges"], "", "<= 1 in 1,000", left))
    return figures


def _median(runs: list[dict[str, Any]], name: str) -> float:
    return float(statistics.median(run[name] for run in runs))


def _child(path: Path, engine: str, transactions: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.spark_transactions", str(path), engine]
    limit_s = _CHILD_S[0] + _CHILD_S[1] * transactions / 1e6
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _facts() -> Facts:
    return Facts(system="", workload="", nodes=(), guarantees=(), required=(STRICT,), read_guarantee=STRICT)


def _native(path: Path) -> dict[str, Any]:
    began, spent = time.perf_counter(), time.process_time()
    verdict = transactions_file.check(path, _facts())
    return {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - spent,
        "peak_mb": peak_mb(),
        "verdict": _decided(verdict),
    }


def _spark(path: Path, master: str) -> dict[str, Any]:
    from fencepost.warehouse.by_spark import transactions

    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-") as scratch,
        SparkHandle(master, scratch=Path(scratch), jvm_flags=FULLY_COMPILED) as handle,
    ):
        session = handle.session(timeout_s=110)
        assert handle.pid is not None
        walls, spent = [], [0.0]
        for _ in range(2):
            began = time.perf_counter()
            verdict = transactions.check(session, str(path), _facts())
            walls.append(time.perf_counter() - began)
            spent.append(cpu_s_of(handle.pid))
    kept = {name: verdict.figures.plain()[name] for name in ("edges", "core_edges", "rounds")}
    return {"first_s": walls[0], "wall_s": walls[1], "cpu_s": spent[2] - spent[1], "verdict": _decided(verdict), **kept}


def _decided(verdict: Verdict) -> str:
    if verdict.validity is Validity.UNKNOWN:
        raise SystemExit(f"not decided: {verdict.reason}")
    return f"{verdict.validity}, {', '.join(verdict.anomalies) or 'no anomaly'}"


if __name__ == "__main__":
    where, engine_ = Path(sys.argv[1]), sys.argv[2]
    bind(2 if engine_ == "local[2]" else 1)
    print(json.dumps(_native(where) if engine_ == "native" else _spark(where, engine_)))
