"""The facts of a judged run as tables: those derived from its history, and those of the run and its verdicts.

A run and the warehouse of many runs call the same function, so that they cannot differ.

`stored_tables` has every table: the core's, and those that leaves bring.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fencepost.harness.base.options import plain
from fencepost.harness.history import History, ending_of
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.plan.checked_plan import ResolvedPlan
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.by_guarantee import by_guarantee, decides
from fencepost.harness.verdict.fact_tables import (
    ANOMALIES,
    DERIVED,
    EXPOSURES,
    GUARANTEES,
    OF_RUN,
    RULES,
    RUN,
    VERDICTS,
    FactTable,
    FactTables,
    by_name,
)
from fencepost.harness.verdict.fingerprint import anomalies


def derived_tables() -> tuple[FactTable, ...]:
    """List every table that is derived from a history, in the order of `registry.derive`."""
    return (*DERIVED, *(one.table for one in registry.tables_of_leaves()))


def stored_tables() -> dict[str, FactTable]:
    """Map the names of all tables that are stored beside a history to them."""
    return by_name((*OF_RUN, *derived_tables()))


Row = dict[str, Any]


def run_id_of(folder: Path, run: Mapping[str, Any]) -> str:
    """The id in `run.json`; that of a run from before there were ids is made of its start, seed and folder."""
    stored = run.get("run_id")
    if isinstance(stored, str):
        return stored
    known = f"{run.get('started_at')} {run.get('seed')} {folder.parent.name}/{folder.name}"
    return hashlib.sha256(known.encode()).hexdigest()[:32]


def facts_of_run(
    resolved: ResolvedPlan,
    folder: Path,
    run: Mapping[str, Any],
    history: History,
    judgement: Judgement,
    derived: FactTables,
) -> FactTables:
    """Every table of `harness.judging.run_facts`, by name, with the run's id.

    Args:
        resolved, folder, run: the run's plan, its folder and its `run.json`.
        history, judgement: what it recorded, and what its checkers say of it.
        derived: the tables that `registry.derive` made of the history.
    """
    facts, verdicts = judgement.facts, judgement.verdicts
    effect_free = resolved.workload.effect_free
    tables = {
        RUN.name: RUN.of_rows([_run(resolved, folder, run, history, judgement)]),
        VERDICTS.name: VERDICTS.of_rows([_verdict(verdict, facts) for verdict in verdicts]),
        ANOMALIES.name: ANOMALIES.of_rows(
            [
                {**msgspec.structs.asdict(one), "fingerprint": one.fingerprints[0]}
                for one in anomalies(history, facts, verdicts, effect_free)
            ]
        ),
        EXPOSURES.name: EXPOSURES.of_rows([_exposure(verdict, facts) for verdict in verdicts]),
        RULES.name: RULES.of_rows([row for verdict in verdicts for row in _rules(verdict)]),
        GUARANTEES.name: GUARANTEES.of_rows(_guarantees(verdicts, facts)),
        **derived,
    }
    run_id = run_id_of(folder, run)
    known = stored_tables()
    return {name: known[name].stored(table, run_id) for name, table in tables.items()}


def _run(resolved: ResolvedPlan, folder: Path, run: Mapping[str, Any], history: History, judgement: Judgement) -> Row:
    plan, facts = resolved.plan, judgement.facts
    ending = ending_of(history, facts.planned_ns, facts.failure)
    return {
        "folder": str(folder),
        "started_at": run.get("started_at"),
        "system": plan.system,
        "version": run.get("system_version") or plan.version or resolved.system.releases.default,
        "digest": _digest(run),
        "workload": plan.workload,
        "nemesis": plan.nemesis,
        "faults": list(facts.nemesis),
        "options": _json(plain(resolved.options)),
        "system_options": _json(plain(resolved.system_options)),
        "settings": _json(plan.settings),
        "runtime": plan.runtime,
        "nodes": list(facts.nodes),
        "machine": _json(run.get("machine", {})),
        "seed": plan.seed,
        "length_ns": history.end_ns,
        "planned_ns": ending.planned_ns,
        "played_ns": ending.played_ns,
        "cut_short": ending.cut_short,
        "events": len(history.events),
        "operations": len(history.operations),
        "outcome": judgement.validity.value,
        "exit_class": int(judgement.exit_code),
        "headline": judgement.headline,
    }


def _digest(run: Mapping[str, Any]) -> str | None:
    digests = run.get("artifacts", {}).get("sha256", {})
    named = "\n".join(f"{name} {digest}" for name, digest in sorted(digests.items()))
    return hashlib.sha256(named.encode()).hexdigest() if digests else None


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _verdict(verdict: Verdict, facts: Facts) -> Row:
    return {
        "checker": verdict.checker,
        "guarantee": verdict.guarantee,
        "subject": verdict.subject,
        "validity": verdict.validity.value,
        "cause": None if verdict.cause is None else verdict.cause.value,
        "reason": verdict.reason,
        "decides": decides(verdict, facts),
    }


def _exposure(verdict: Verdict, facts: Facts) -> Row:
    return {
        "guarantee": verdict.guarantee,
        "checker": verdict.checker,
        "exposure": verdict.tested,
        "exposure_of": verdict.exposure_of,
        "exposure_min": facts.thresholds.exposure_min,
    }


def _rules(verdict: Verdict) -> list[Row]:
    of = {"guarantee": verdict.guarantee, "checker": verdict.checker}
    return [{**of, "rule": rule.name, "chances": rule.chances, "lacks": rule.lacks} for rule in verdict.rules]


def _guarantees(verdicts: Sequence[Verdict], facts: Facts) -> list[Row]:
    rows = []
    for line in by_guarantee(verdicts, facts):
        name, stated = line.name, facts.guarantee(line.name)
        rows.append(
            {
                "guarantee": name,
                "validity": line.validity.value,
                "standing": None if stated is None else stated.standing.value,
                "source": None if stated is None else stated.source,
                "known_issue": None if stated is None else stated.known_issue,
                "unmet": None if stated is None or stated.unmet is None else stated.unmet.text,
                "required": name in facts.required,
                "primary": name == facts.read_guarantee,
                "decides": facts.decides(name),
            }
        )
    return rows
