"""One task of the warehouse: the facts of several stored runs, judged again or as the runs left them.

It calls the function that the run itself called, once for each run, in an executor's own Python. It collects the runs'
tables, writes them as one file for each table, night and system, and returns one row for each run. So no event and no
operation goes through the driver.
"""

import gc
import json
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from fencepost.harness.base import offers
from fencepost.harness.base.errors import FencepostError, UsageError
from fencepost.harness.base.options import plain
from fencepost.harness.judging.judge import judge_by, resolved_of
from fencepost.harness.judging.run_facts import facts_of_run, run_id_of, stored_tables
from fencepost.harness.plugins import registry
from fencepost.harness.report.documents import FORMAT as VERDICT_FORMAT
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table
from fencepost.harness.results.reader import require_history
from fencepost.harness.verdict.fact_tables import FLAG, GUARANTEES, LONG, RUN, TEXT, VERSION_KEY, FactTables
from fencepost.warehouse.night_tables import PLACED, REBUILT
from fencepost.warehouse.parts import FILE, TaskTables
from fencepost.warehouse.sources import RunSource

#: So many objects more than were freed, before a task's Python looks for cycles; 700 is usual.
_GARBAGE: Final = 100_000
_KINDS: Final = {"shard": LONG, "size": LONG, "is_half": FLAG}
#: A run to judge, its number among all, and the task that judges it.
DEALT: Final = pa.schema(
    [("task", pa.int32()), ("number", LONG), *((name, _KINDS.get(name, TEXT)) for name in RunSource.__struct_fields__)]
)
#: What a task returns: a row for each run, and in the first one the files that it wrote for all of them, and the rows
#: of the table `run` as an Arrow stream.
DONE: Final = pa.schema([*REBUILT, ("files", pa.list_(FILE)), ("runs", pa.binary())])

Batches = Iterator[Any]


def task(root: str, added: str, *, again: bool) -> Callable[[Batches], Batches]:
    """Return what `mapInArrow` carries out: rows of DEALT become rows of DONE.

    Args:
        root: the warehouse's place.
        added: the name of the add that the files belong to.
        again: judge every run again; otherwise tables that a run left in today's form are taken as they are.
    """

    plugins = offers.plugin_paths()

    def rebuild_all(batches: Batches) -> Batches:
        # An executor's own process: what `--plugin` named must be found there under the same path.
        registry.use_plugins(plugins)
        # A history is a million objects without cycles: looking through them costs a tenth of the task.
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        parts, rows = TaskTables(root, added), []
        for dealt in (row for batch in batches for row in batch.to_pylist()):
            row, tables = rebuild(msgspec.convert(dealt, RunSource), again=again)
            if tables:
                parts.add(row["night"], row["system"], tables)
            rows.append(row)
        parts.write()
        if rows:
            rows[0] |= {"files": [msgspec.structs.asdict(file) for file in parts.files], "runs": _stream(parts.runs)}
        yield from pa.Table.from_pylist(rows, schema=DONE).to_batches()

    return rebuild_all


def _stream(tables: Sequence[Any]) -> bytes | None:
    if not tables:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    return bytes(sink.getvalue())


def rebuild(source: RunSource, *, again: bool = True) -> tuple[dict[str, Any], FactTables]:
    """Derive the tables of one run, and judge it again unless its own tables can be taken.

    Returns:
        Its row of REBUILT, and its tables by name; no tables if it could not be judged, and the row says why.
    """
    began = time.perf_counter_ns()
    folder, run_id = Path(source.folder), None
    try:
        run = store.read_run(folder)
        run_id = run_id_of(folder, run)
        stored = None if again else _stored_tables(folder, run_id)
        before = stored_verdicts(folder)
        if stored is None:
            resolved = resolved_of(folder)
            history, judgement = judge_by(resolved, folder)
            derived = registry.derive()(history, judgement.facts)
            tables = facts_of_run(resolved, folder, run, history, judgement, derived)
        else:
            # Its tables would stand for a run that nobody can look into.
            require_history(folder)
            tables = stored
        own = tables[RUN.name].to_pylist()[0]
        core = None if stored else msgspec.json.encode(registry.native("build-info")(), order="sorted").decode()
        placed = {
            **msgspec.structs.asdict(source),
            "core": core,
            "variant": variant(folder, own),
            "expected": str(run.get("expected") or ""),
        }
        tables = {**tables, PLACED.name: PLACED.stored(PLACED.of_rows([placed]), run_id)}
        guarantees = tables[GUARANTEES.name].to_pylist()
        after = {None: own["outcome"], **{row["guarantee"]: row["validity"] for row in guarantees}}
        row = _row(run_id, source, own["outcome"], began, changes=_changes(before, after))
        return {**row, "system": own["system"]}, tables
    except (FencepostError, OSError) as error:
        why = str(error)
        if isinstance(error, FencepostError):
            why = f"{error.message}; {error.hint}" if error.hint else error.message
        return _row(run_id, source, None, began, error=why), {}
    except Exception as error:
        return _row(run_id, source, None, began, error=f"{type(error).__name__}: {error}"), {}


def variant(folder: Path, run: dict[str, Any]) -> str:
    """What makes the run's system another one than its plain release: an own build, options, settings; empty: nothing.

    Only what differs from the defaults, such as "defect=stale-reads", so that an option that comes with a later
    fencepost does not make all older runs another population. `run` is its row of the table `run`.
    """
    plan = tomllib.loads((folder / store.PLAN).read_text(encoding="utf-8"))
    given: dict[str, Any] = json.loads(run["system_options"])
    try:
        system = registry.system(run["system"])
        workload = registry.workload(run["workload"])
        usual = plain(system.profile.parse_options(workload.system_options(system)))
    except FencepostError:
        # A plug-in that is not here.
        usual = {}
    settings = [
        (f"{role}.{key}", value) for role, own in json.loads(run["settings"]).items() for key, value in own.items()
    ]
    is_own_build = bool(plan.get("image")) or "/" in str(plan.get("version", ""))
    return ", ".join(
        [
            *["own build"] * is_own_build,
            *(f"{key}={value}" for key, value in sorted(given.items()) if usual.get(key) != value),
            *(f"{key}={value}" for key, value in sorted(settings)),
        ]
    )


def _stored_tables(folder: Path, run_id: str) -> FactTables | None:
    """The tables that the run left, when all of them are there in today's form and are this run's; else None.

    Raises:
        UsageError: a newer fencepost wrote one of them.
    """
    tables = {}
    for name, table in stored_tables().items():
        try:
            stored = read_table(folder / FACTS / f"{name}.parquet")
        except (OSError, pa.ArrowException):
            return None
        version = (stored.schema.metadata or {}).get(VERSION_KEY, b"")
        if version.isdigit() and int(version) > table.version:
            path = folder / FACTS / f"{name}.parquet"
            raise store.newer_format(path, int(version), table.version)
        if version != str(table.version).encode() or not stored.schema.equals(table.stored_schema):
            return None
        tables[name] = stored
    return tables if tables[RUN.name]["run_id"].to_pylist() == [run_id] else None


def _row(
    run_id: str | None,
    source: RunSource,
    outcome: str | None,
    began: int,
    *,
    error: str | None = None,
    changes: Sequence[dict[str, str | None]] = (),
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "folder": source.folder,
        "night": source.night,
        "system": None,
        "outcome": outcome,
        "length_ns": time.perf_counter_ns() - began,
        "error": error,
        "changes": list(changes),
    }


class _OfGuarantee(msgspec.Struct, frozen=True):
    name: str
    validity: str


class _StoredVerdict(msgspec.Struct, frozen=True):
    """What is read of a `verdict.json`: most of it is for pages."""

    format: int = VERDICT_FORMAT
    validity: str | None = None
    guarantees: tuple[_OfGuarantee, ...] = ()


def stored_verdicts(folder: Path) -> dict[str | None, str | None]:
    """The verdicts that were written when the run was last judged, by guarantee; None is the whole run."""
    path = folder / store.VERDICT
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_StoredVerdict)
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not JSON of a verdict: {error}", hint="fencepost check FOLDER") from None
    if document.format > VERDICT_FORMAT:
        raise store.newer_format(path, document.format, VERDICT_FORMAT)
    return {None: document.validity, **{g.name: g.validity for g in document.guarantees}}


def _changes(before: dict[str | None, str | None], after: dict[str | None, str]) -> list[dict[str, str | None]]:
    """Return the verdicts that differ now; none if the run had not been judged."""
    names = [*before, *(name for name in after if name not in before)] if before else []
    pairs = [(name, before.get(name), after.get(name)) for name in names]
    return [{"guarantee": name, "before": old, "after": new} for name, old, new in pairs if old != new]
