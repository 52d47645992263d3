"""The report of a history that stands alone: verdict, what was judged, each anomaly drawn, what it rules out.

The same page and style as a run's report, without its script, faults and leaders: nothing is known of them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.history import Outcome
from fencepost.harness.interchange.formats.imported import Imported
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.report import tables
from fencepost.harness.report.page import Page, Rendered, Sections, assembled, rows_section, witness_context
from fencepost.harness.report.section import ReportCase, TextTable, generic
from fencepost.harness.report.words import SIGNS, count, guarantee_words, text, traced
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.by_guarantee import all_figures
from fencepost.harness.verdict.figures import RULED_OUT, UNFINISHED, WEAKEST_RULED_OUT

#: Keys that the page lists; all are counted.
_KEYS_MAX: Final = 40
#: Figures with a section of their own.
_MODELS: Final = frozenset({RULED_OUT, WEAKEST_RULED_OUT})


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A consistency model: whether the history rules it out or proves it, by what, and who defined it."""

    name: str
    judgement: str
    because: tuple[str, ...]
    source: str


class JudgedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What the page is made of; `file` are facts of the file (name, size, ...), `command` judges it again.

    `models` is empty but for transactions; `sources` says whom they are defined by.
    """

    imported: Imported
    judgement: Judgement
    file: dict[str, str]
    command: str
    models: tuple[ModelRow, ...] = ()
    sources: str = ""


def render_file(judged: JudgedFile) -> Rendered:
    """The page of one judged file."""
    judgement = judged.judgement
    case = ReportCase(
        history=judged.imported.history,
        facts=judgement.facts,
        verdicts=judgement.verdicts,
        validity=judgement.validity,
        headline=judgement.headline,
        run={},
        command=judged.command,
        plan_toml="",
    )
    sections: Sections = (
        ("anomalies", "Anomalies", lambda page: _anomalies(page, judged)),
        ("models", "Consistency models", lambda page: _models(page, judged)),
        ("judged", "What was judged", lambda page: _judged(page, judged)),
        ("repeat", "Repeat", lambda page: _repeat(page, judged)),
        ("rows", "Rows", rows_section),
    )
    return assembled(Page(case), lambda page: _verdict(page, judged), sections, judged.file["file"])


def _verdict(page: Page, judged: JudgedFile) -> Markup:
    history = page.case.history
    return page.made(
        "file_verdict",
        file=judged.file["file"],
        form=judged.imported.form,
        model=judged.imported.family,
        keyed=judged.imported.keyed,
        sign=SIGNS[page.case.validity],
        events=count(len(history.events)),
        operations=traced(count(len(history.operations)), [o.invoke_index for o in history.operations]),
        guarantees=[(row, guarantee_words(row["name"])) for row in tables.guarantees(page.case)],
        missing=_missing(page.case.verdicts),
    )


def _missing(verdicts: Sequence[Verdict]) -> list[str]:
    """What kept the verdicts from being more than unknown."""
    reasons = []
    for verdict in verdicts:
        if verdict.validity is Validity.UNKNOWN:
            reasons.append(verdict.reason or f"{verdict.checker} gave no reason")
            if unfinished := verdict.figures.get(UNFINISHED):
                reasons.append(f"the budget ended before these were searched: {', '.join(unfinished)}")
    return list(dict.fromkeys(reasons))


def _anomalies(page: Page, judged: JudgedFile) -> Markup:
    """Every witness, by verdict and name; the first of each name open."""
    groups = []
    # Of transactions an anomaly may rule out other models only.
    harmless = {
        (row.name, witness.anomaly)
        for row in judged.models
        for verdict in page.case.verdicts
        for witness in verdict.witnesses
        if witness.anomaly not in row.because
    }
    for verdict in page.case.verdicts:
        by_name: dict[str, list[dict[str, Any]]] = {}
        for witness in verdict.witnesses:
            named = by_name.setdefault(witness.anomaly, [])
            context = witness_context(page, verdict, witness, len(named) + 1)
            context["breaks"] &= (verdict.guarantee, witness.anomaly) not in harmless
            named.append(context)
        groups += [{"first": first, "more": more, "again": False} for first, *more in by_name.values()]
        shown = set(by_name)
        groups += [{"untold": name, "count": number} for name, number in verdict.counts.items() if name not in shown]
    return page.made("file_anomalies", groups=groups)


def _models(page: Page, judged: JudgedFile) -> Markup | None:
    if not judged.models:
        return None
    table = TextTable(
        caption="Consistency models, weakest first",
        columns=("model", "this history", "because of", "defined by"),
        rows=tuple((row.name, row.judgement, ", ".join(row.because), row.source) for row in judged.models),
        note=judged.sources,
    )
    intro = "A model implies those above it from which it is built; what rules one out rules out all that imply it."
    return page.made("tables", intro=intro, tables=[table])


def _judged(page: Page, judged: JudgedFile) -> Markup:
    operations = page.case.history.operations
    outcomes = Counter((op.f, op.type) for op in operations)
    functions = sorted({f for f, _ in outcomes})
    shown = (Outcome.OK, Outcome.FAIL, Outcome.INFO)
    by_function = TextTable(
        caption="Operations by outcome; info: unknown, may have happened or happen later",
        columns=("operation", *(str(outcome) for outcome in shown), "all"),
        rows=tuple(
            (f, *(count(outcomes[f, outcome]) for outcome in shown), count(sum(outcomes[f, o] for o in shown)))
            for f in functions
        ),
    )
    facts: list[tuple[str, str]] = list(judged.file.items())
    facts += [
        ("form", judged.imported.form),
        ("model", f"{judged.imported.family.name}: {judged.imported.family.about}"),
    ]
    facts += [
        ("events", count(len(page.case.history.events))),
        ("operations", count(len(operations))),
        ("processes", count(len({op.process for op in operations}))),
    ]
    keys = _keys(page, judged)
    figures: list[TextTable] = [tables.exposure(page.case)]
    for verdict in page.case.verdicts:
        plain = {key: value for key, value in all_figures(verdict).items() if key not in _MODELS}
        figures += generic(f"{verdict.checker} on {verdict.guarantee}", plain)
    return page.made(
        "file_judged",
        facts=TextTable(caption="The history", columns=("what", "value"), rows=tuple(facts)),
        operations=by_function,
        keys=keys,
        figures=figures,
    )


def _keys(page: Page, judged: JudgedFile) -> TextTable | None:
    """Operations of each key, those with a witness first."""
    if judged.imported.family.functions == frozenset({"txn"}):
        return None
    counts: Counter[str | None] = Counter(op.key for op in page.case.history.operations)
    violated: dict[str | None, str] = {
        w.key: w.anomaly for v in reversed(page.case.verdicts) for w in reversed(v.witnesses) if w.key is not None
    }
    if len(counts) < 2:
        return None
    order = sorted(counts, key=lambda key: (key not in violated, -counts[key], str(key)))
    more = len(order) - _KEYS_MAX
    return TextTable(
        caption=f"{count(len(order))} keys, each judged by itself",
        columns=("key", "operations", "witness"),
        rows=tuple((text(key, 80), count(counts[key]), violated.get(key) or "") for key in order[:_KEYS_MAX]),
        note=f"{count(more)} more keys are not listed." if more > 0 else "",
    )


def _repeat(page: Page, judged: JudgedFile) -> Markup:
    return page.made("file_repeat", command=judged.command, file=judged.file)
